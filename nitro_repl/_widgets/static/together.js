// What charts beside each other have in common: the points, one zoom and one cursor.

class Together {
  constructor() {
    this.zoom = null;
    this.cursor = null;
    this.drag = null;
    this.flags = [];
    this.epochSteps = 0;
    this.store = new Map();
  }

  // Draw again whenever the element gets another size.
  watch(element) {
    this.watcher = new ResizeObserver(() => this.redraw());
    this.watcher.observe(element);
    this.redraw();
  }

  // Take in series; `anew` replaces all that was known.
  take(series, buffers, anew) {
    if (anew) {
      this.store.clear();
      for (const chart of this.all) chart.clear();
    }
    for (const one of series) {
      const key = this.keyOf(one);
      if (!this.store.has(key)) {
        const points = new Points({ ...one, key });
        this.store.set(key, points);
        this.chartOf(points.about).add(points);
      }
      this.store.get(key).push(numbersOf(buffers[one.x]), numbersOf(buffers[one.y]));
    }
    if (series.length || anew) this.redraw();
  }

  get longest() { return Math.max(0, ...[...this.store.values()].map((p) => p.count)); }

  range() {
    if (this.zoom) return this.zoom;
    let [low, high] = [Infinity, -Infinity];
    for (const points of this.store.values()) {
      if (!points.count) continue;
      low = Math.min(low, points.x[0]);
      high = Math.max(high, points.x[points.count - 1]);
    }
    return low <= high ? [low, high] : null;
  }

  zoomTo(range) { this.zoom = range; this.redraw(); }

  point(step) {
    this.cursor = step === undefined ? null : step;
    if (this.drag && step !== null) this.drag[1] = step;
    this.redraw();
  }

  key(name, axes) {
    const width = axes.x1 - axes.x0;
    const at = this.cursor ?? axes.x1;
    const moves = { ArrowLeft: at - width / 100, ArrowRight: at + width / 100, Home: axes.x0, End: axes.x1 };
    if (name in moves) this.point(Math.min(Math.max(moves[name], axes.x0), axes.x1));
    else if (name === "+" || name === "=") this.zoomTo([at - (at - axes.x0) / 2, at + (axes.x1 - at) / 2]);
    else if (name === "-") this.zoomOut(axes);
    else if (name === "0" || name === "Escape") { this.zoomTo(null); this.point(null); }
    else return false;
    return true;
  }

  zoomOut(axes) {
    const half = (axes.x1 - axes.x0) / 2;
    const zoom = this.zoom;
    this.zoom = null;
    const whole = this.range();
    if (!zoom || !whole) return this.redraw();
    const wide = [Math.max(zoom[0] - half, whole[0]), Math.min(zoom[1] + half, whole[1])];
    this.zoomTo(wide[0] === whole[0] && wide[1] === whole[1] ? null : wide);
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  close() { this.watcher.disconnect(); }
}
