// The charts of a panel: losses, metrics, values; one zoom and one cursor for all.

class Charts {
  constructor() {
    this.zoom = null;
    this.cursor = null;
    this.drag = null;
    this.flags = [];
    this.epochSteps = 0;
    this.valueNames = new Set();
    this.store = new Map();
    this.losses = new Chart("loss", this, { log: true });
    this.metrics = new Chart("metrics", this);
    this.values = new Chart("values", this, { log: true });
    this.readout = el("div", { class: "nitro-readout", "aria-live": "polite" });
    this.more = el("details", { class: "nitro-more", ontoggle: () => this.redraw() },
      el("summary", {}, "learning rate, gradient norm and other values"), this.values.element);
    this.element = el("div", { class: "nitro-charts" },
      this.losses.element, this.metrics.element, this.readout, this.more);
    this.watcher = new ResizeObserver(() => this.redraw());
    this.watcher.observe(this.element);
    this.redraw();
  }

  get all() { return [this.losses, this.metrics, this.values]; }

  // Take in series; `anew` replaces all that was known.
  take(series, buffers, anew) {
    if (anew) {
      this.store.clear();
      for (const chart of this.all) chart.clear();
    }
    for (const one of series) {
      const key = `${one.split}\n${one.name}`;
      if (!this.store.has(key)) {
        const points = new Points({ ...one, key });
        this.store.set(key, points);
        this.chartOf(one).add(points);
      }
      this.store.get(key).push(numbersOf(buffers[one.x]), numbersOf(buffers[one.y]));
    }
    if (series.length || anew) this.redraw();
  }

  get longest() { return Math.max(0, ...[...this.store.values()].map((p) => p.count)); }

  chartOf({ split, name }) {
    if (name === "loss" || name.endsWith("_loss")) return this.losses;
    if (split === "train" && (name === "grad_norm" || this.valueNames.has(name))) return this.values;
    return this.metrics;
  }

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

  draw() {
    const begun = performance.now();
    this.metrics.element.hidden = this.metrics.isEmpty;
    this.more.hidden = this.values.isEmpty;
    for (const chart of this.all) {
      if (chart !== this.values || this.more.open) chart.draw();
    }
    this.tell();
    this.draws = (this.draws ?? 0) + 1;
    this.drawMs = performance.now() - begun;
  }

  // What stands under the cursor: the step, its epoch, and changes made about there.
  tell() {
    const axes = this.losses.axes ?? this.metrics.axes;
    if (this.cursor === null || !axes) {
      const count = this.flags.length;
      setText(this.readout, count ? `${count} live change${count > 1 ? "s" : ""}, last: step ${this.flags.at(-1).step.toLocaleString("en-US")} ${this.flags.at(-1).text}` : "");
      return;
    }
    const step = Math.round(this.cursor);
    const parts = [`step ${step.toLocaleString("en-US")}`];
    if (this.epochSteps) parts.push(`epoch ${Math.max(0, Math.floor((step - 1) / this.epochSteps))}`);
    const near = (axes.x1 - axes.x0) * 8 / axes.width;
    const flags = this.flags.filter((f) => Math.abs(f.step - this.cursor) <= near);
    for (const flag of flags.slice(-3)) parts.push(`⚑ step ${flag.step.toLocaleString("en-US")} ${flag.text}`);
    if (flags.length > 3) parts.push(`and ${flags.length - 3} more`);
    setText(this.readout, parts.join("   "));
  }

  close() { this.watcher.disconnect(); }
}
