// From steps and values to pixels, and the places of the ticks.

const MARGIN = { left: 58, right: 10, top: 16, bottom: 20 };

function rangeOf(curves, from, to, log) {
  let low = Infinity;
  let high = -Infinity;
  for (const points of curves) {
    const end = Math.min(points.from(to) + 1, points.count);
    for (let i = Math.max(points.from(from) - 1, 0); i < end; i++) {
      const y = points.y[i];
      if (!Number.isFinite(y) || (log && y <= 0)) continue;
      if (y < low) low = y;
      if (y > high) high = y;
    }
  }
  return low <= high ? [low, high] : null;
}

class Axes {
  constructor(width, height, x, y, log) {
    this.width = width;
    this.height = height;
    this.log = log;
    this.x0 = x[0];
    this.x1 = x[1] > x[0] ? x[1] : x[0] + 1;
    const scale = log ? Math.log10 : (value) => value;
    let [low, high] = [scale(y[0]), scale(y[1])];
    const room = (high - low || Math.abs(high) * 0.1 || 1) * 0.05;
    this.y0 = low - room;
    this.y1 = high + room;
    this.scale = scale;
  }

  get inside() {
    return {
      left: MARGIN.left,
      right: this.width - MARGIN.right,
      top: MARGIN.top,
      bottom: this.height - MARGIN.bottom,
    };
  }

  across(step) {
    const { left, right } = this.inside;
    return left + ((step - this.x0) / (this.x1 - this.x0)) * (right - left);
  }

  step(pixel) {
    const { left, right } = this.inside;
    return this.x0 + ((pixel - left) / (right - left)) * (this.x1 - this.x0);
  }

  down(value) {
    const { top, bottom } = this.inside;
    return top + ((this.y1 - this.scale(value)) / (this.y1 - this.y0)) * (bottom - top);
  }

  ticksX() {
    return ticks(this.x0, this.x1, Math.max(2, Math.floor(this.width / 110)), true);
  }

  ticksY() {
    const wanted = Math.max(2, Math.floor(this.height / 45));
    if (!this.log) return ticks(this.y0, this.y1, wanted);
    const found = [];
    const decades = this.y1 - this.y0;
    const steps = decades > 2 ? [1] : decades > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
    const every = Math.max(1, Math.ceil(decades / 6));
    for (let e = Math.floor(this.y0); e <= this.y1; e++) {
      if (e % every) continue;
      for (const s of steps) found.push(s * 10 ** e);
    }
    const seen = found.filter((v) => Math.log10(v) >= this.y0 && Math.log10(v) <= this.y1);
    if (seen.length >= 2) return seen;
    return ticks(10 ** this.y0, 10 ** this.y1, wanted);
  }
}

// The next of 1, 2, 5, 10, 20, 50 ... and their fractions.
function roundUp(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough) ?? rough;
}

function ticks(low, high, wanted, whole = false) {
  let size = roundUp((high - low) / wanted);
  if (whole) size = Math.max(1, size);
  const found = [];
  for (let v = Math.ceil(low / size) * size; v <= high + size * 1e-9; v += size) {
    found.push(Math.abs(v) < size * 1e-9 ? 0 : v);
  }
  // One mark alone says nothing of the scale; whole steps may have no more.
  return found.length < 2 && !whole && wanted < 64 ? ticks(low, high, 2 * wanted) : found;
}
