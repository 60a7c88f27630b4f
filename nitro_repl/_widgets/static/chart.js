// One chart on a canvas: curves, epochs, flags, and what is under the pointer.

const COLORS = ["#3b7dd8", "#d9772b", "#2f9e6e", "#9a5bd0", "#cf4a5a", "#1f97a8", "#8a8f2a", "#b0568f"];

class Chart {
  // shared: the `Together` of all charts beside it. Curves of one group hide together.
  constructor(title, shared, { log = false, smoothing = 0 } = {}) {
    this.shared = shared;
    this.curves = new Map();
    this.hidden = shared.hidden ?? new Set();
    this.smoothing = smoothing;
    this.canvas = el("canvas", {
      class: "nitro-canvas", tabindex: 0, role: "img",
      "aria-label": `${title} over steps. Arrow keys read values, plus and minus zoom, 0 shows all.`,
    });
    this.logBox = el("input", { type: "checkbox", "aria-label": `log axis of ${title}`, onchange: () => shared.redraw() });
    this.logBox.checked = log;
    this.slide = el("input", {
      type: "range", min: 0, max: 0.99, step: 0.01, value: smoothing, class: "nitro-smooth",
      "aria-label": `smoothing of ${title}`,
      oninput: () => { this.smoothing = Number(this.slide.value); shared.redraw(); },
    });
    this.all = el("button", { type: "button", class: "nitro-small", onclick: () => shared.zoomTo(null) }, "show all");
    this.legend = el("div", { class: "nitro-legend" });
    this.element = el("section", { class: "nitro-chart", "aria-label": title },
      el("div", { class: "nitro-charthead" },
        el("span", { class: "nitro-title" }, title), this.all,
        el("label", { class: "nitro-tool" }, this.logBox, "log"),
        el("label", { class: "nitro-tool" }, "smooth", this.slide)),
      this.canvas, this.legend);
    this.listen();
  }

  add(points) {
    const key = points.about.key;
    if (this.curves.has(key)) { this.curves.get(key).points = points; return; }
    const color = points.about.color ?? COLORS[this.curves.size % COLORS.length];
    const group = points.about.group ?? key;
    const value = el("span", { class: "nitro-value" });
    const swatch = el("span", { class: "nitro-swatch" });
    swatch.style.background = color;
    const button = el("button", {
      type: "button", class: "nitro-key", "aria-pressed": "true", title: "show or hide",
      onclick: () => {
        if (!this.hidden.delete(group)) this.hidden.add(group);
        this.shared.redraw();
      },
    }, swatch, el("span", { class: "nitro-name" }, points.about.label), value);
    this.legend.append(button);
    this.curves.set(key, { points, color, value, group, button });
  }

  clear() {
    for (const curve of this.curves.values()) curve.points = new Points(curve.points.about);
  }

  get visible() {
    const shown = [...this.curves.values()].filter((c) => !this.hidden.has(c.group) && c.points.count);
    return shown.sort((a, b) => Number(a.points.about.bold ?? 0) - Number(b.points.about.bold ?? 0));
  }

  get isEmpty() { return ![...this.curves.values()].some((c) => c.points.count); }

  listen() {
    const { canvas, shared } = this;
    const stepAt = (event) => this.axes && this.axes.step(event.clientX - canvas.getBoundingClientRect().left);
    canvas.addEventListener("pointermove", (event) => shared.point(stepAt(event)));
    canvas.addEventListener("pointerleave", () => { if (!shared.drag) shared.point(null); });
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.axes || event.button) return;
      canvas.setPointerCapture(event.pointerId);
      shared.drag = [stepAt(event), null];
    });
    canvas.addEventListener("pointerup", (event) => {
      const drag = shared.drag;
      shared.drag = null;
      if (!drag || !this.axes) return;
      const ends = [drag[0], stepAt(event)].sort((a, b) => a - b);
      const wide = this.axes.across(ends[1]) - this.axes.across(ends[0]);
      if (wide > 6) shared.zoomTo(ends); else shared.redraw();
    });
    canvas.addEventListener("dblclick", () => shared.zoomTo(null));
    canvas.addEventListener("keydown", (event) => {
      if (this.axes && shared.key(event.key, this.axes)) { event.preventDefault(); event.stopPropagation(); }
    });
    canvas.addEventListener("blur", () => shared.point(null));
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    const density = globalThis.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * density), Math.round(height * density)];
    if (this.canvas.width !== w || this.canvas.height !== h) Object.assign(this.canvas, { width: w, height: h });
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(density, 0, 0, density, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.canvas);
    const ink = { text: style.color, grid: style.getPropertyValue("--nitro-grid").trim() || "#8884",
      back: style.getPropertyValue("--nitro-back").trim() || "#fff", font: style.fontFamily };
    const visible = this.visible;
    const x = this.shared.range();
    const log = this.logBox.checked;
    const y = x && rangeOf(visible.map((c) => c.points), x[0], x[1], log);
    this.axes = y ? new Axes(width, height, x, y, log) : null;
    this.all.style.visibility = this.shared.zoom ? "visible" : "hidden";
    this.tell();
    ctx.font = `11px ${ink.font}`;
    if (!this.axes) {
      ctx.fillStyle = ink.text;
      ctx.fillText(visible.length && log ? "no positive values for a log axis" : "no points yet", 12, 24);
      return;
    }
    drawGrid(ctx, this.axes, ink);
    const epochs = epochsOf(this.axes, this.shared.epochSteps);
    drawEpochs(ctx, this.axes, ink, epochs);
    const box = this.axes.inside;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top - 2, box.right - box.left, box.bottom - box.top + 4);
    ctx.clip();
    for (const { points, color } of visible) {
      ctx.strokeStyle = ctx.fillStyle = color;
      if (this.smoothing && points.count > 2) {
        ctx.globalAlpha = 0.25;
        drawCurve(ctx, this.axes, points, points.y, 1);
        ctx.globalAlpha = 1;
        drawCurve(ctx, this.axes, points, points.smooth(this.smoothing), points.about.bold ? 3 : 1.8);
      } else drawCurve(ctx, this.axes, points, points.y, points.about.bold ? 2.6 : 1.4);
    }
    ctx.restore();
    nameEpochs(ctx, this.axes, ink, epochs);
    drawFlags(ctx, this.axes, ink, this.shared.flags);
    drawCursor(ctx, this.axes, ink, this.shared, visible);
  }

  // The legend says the values under the cursor, or the last ones.
  tell() {
    for (const { points, value, group, button } of this.curves.values()) {
      setAttribute(button, "aria-pressed", String(!this.hidden.has(group)));
      button.hidden = !points.count;
      const at = this.shared.cursor === null ? points.nearest(Infinity) : points.nearest(this.shared.cursor);
      setText(value, at < 0 ? "" : shortNumber(points.y[at]));
    }
  }
}

function drawGrid(ctx, axes, ink) {
  const { left, right, top, bottom } = axes.inside;
  ctx.lineWidth = 1;
  ctx.strokeStyle = ink.grid;
  ctx.fillStyle = ink.text;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  const marks = axes.ticksY();
  const largest = Math.max(...marks.map(Math.abs));
  // As many digits as tell one mark from the next.
  const digits = marks.length > 1 ? Math.ceil(Math.log10(largest / (marks[1] - marks[0]))) + 1 : 4;
  for (const value of marks) {
    const y = Math.round(axes.down(value)) + 0.5;
    line(ctx, left, y, right, y);
    ctx.fillText(shortNumber(value, Math.min(Math.max(digits, 4), 8)), left - 6, y);
  }
  ctx.textAlign = "center";
  ctx.textBaseline = "top";
  for (const step of axes.ticksX()) {
    const x = Math.round(axes.across(step)) + 0.5;
    line(ctx, x, bottom, x, bottom + 4);
    if (x > left + 4 && x < right - 8) ctx.fillText(shortNumber(step), x, bottom + 6);
  }
  line(ctx, left, bottom + 0.5, right, bottom + 0.5);
  ctx.textAlign = "left";
}

// The epochs that are marked, and which of them are named.
function epochsOf(axes, size) {
  if (!size) return [];
  const pixels = axes.across(size) - axes.across(0);
  const named = Math.max(1, roundUp(60 / pixels));
  const every = pixels < 20 ? named : 1;
  const found = [];
  for (let e = Math.max(1, Math.ceil(axes.x0 / size / every)) * every; e * size <= axes.x1; e += every) {
    found.push({ x: Math.round(axes.across(e * size)) + 0.5, name: e % named ? "" : `ep ${e}` });
  }
  return found;
}

function drawEpochs(ctx, axes, ink, epochs) {
  const { top, bottom } = axes.inside;
  ctx.strokeStyle = ink.text;
  ctx.setLineDash([2, 3]);
  ctx.globalAlpha = 0.22;
  for (const { x } of epochs) line(ctx, x, top, x, bottom);
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

// Over the curves, each with a rim that sets it off from them.
function nameEpochs(ctx, axes, ink, epochs) {
  const { right, bottom } = axes.inside;
  ctx.strokeStyle = ink.back;
  ctx.fillStyle = ink.text;
  ctx.lineWidth = 3;
  ctx.textBaseline = "top";
  for (const { x, name } of epochs) {
    if (!name || x + 3 + ctx.measureText(name).width >= right) continue;
    ctx.strokeText(name, x + 3, bottom - 13);
    ctx.fillText(name, x + 3, bottom - 13);
  }
  ctx.lineWidth = 1;
}

function drawCurve(ctx, axes, points, values, width) {
  const start = Math.max(points.from(axes.x0) - 1, 0);
  const end = Math.min(points.from(axes.x1) + 1, points.count);
  ctx.lineWidth = width;
  ctx.lineJoin = "round";
  ctx.beginPath();
  let pen = false;
  const to = (x, y) => { if (pen) ctx.lineTo(x, y); else ctx.moveTo(x, y); pen = true; };
  if (end - start < 3 * axes.width) {
    for (let i = start; i < end; i++) {
      const y = axes.down(values[i]);
      if (Number.isFinite(y)) to(axes.across(points.x[i]), y);
    }
  } else { // the lowest and the highest of each column of pixels
    let i = start;
    while (i < end) {
      const column = Math.floor(axes.across(points.x[i]));
      let low = Infinity;
      let high = -Infinity;
      for (; i < end && Math.floor(axes.across(points.x[i])) === column; i++) {
        const v = values[i];
        if (v < low && (!axes.log || v > 0)) low = v;
        if (v > high) high = v;
      }
      if (low <= high) { to(column, axes.down(low)); to(column, axes.down(high)); }
    }
  }
  ctx.stroke();
  if (points.about.split !== "train" && end - start < axes.width / 6) {
    for (let i = start; i < end; i++) dot(ctx, axes.across(points.x[i]), axes.down(values[i]), 2.2);
  }
}

// The text, its end cut off where it is too wide; nothing where little would be left.
function fitting(ctx, text, width) {
  const size = ctx.measureText(text).width;
  if (size <= width) return text;
  const kept = Math.floor((text.length * width) / size) - 1;
  return kept < 6 ? "" : text.slice(0, kept).trimEnd() + "…";
}

function drawFlags(ctx, axes, ink, flags) {
  const { left, right, top, bottom } = axes.inside;
  let last = -Infinity;
  ctx.strokeStyle = ctx.fillStyle = ink.text;
  ctx.textBaseline = "middle";
  const places = flags.map((flag) => Math.round(axes.across(flag.step)) + 0.5);
  flags.forEach((flag, place) => {
    const x = places[place];
    if (x < left || x > right || x - last < 2) return;
    last = x;
    const next = Math.min(places.find((other) => other >= x + 2) ?? right, right);
    ctx.globalAlpha = 0.5;
    ctx.setLineDash([1, 2]);
    line(ctx, x, top - 4, x, bottom);
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
    ctx.beginPath();
    ctx.moveTo(x, top - 12);
    ctx.lineTo(x + 9, top - 8);
    ctx.lineTo(x, top - 4);
    ctx.fill();
    ctx.fillText(fitting(ctx, flag.text, next - x - 22), x + 13, top - 8);
  });
  ctx.globalAlpha = 1;
}

function drawCursor(ctx, axes, ink, shared, visible) {
  const { left, right, top, bottom } = axes.inside;
  if (shared.drag && shared.drag[1] !== null) {
    const ends = shared.drag.map((s) => Math.min(Math.max(axes.across(s), left), right));
    ctx.fillStyle = ink.text;
    ctx.globalAlpha = 0.12;
    ctx.fillRect(Math.min(...ends), top, Math.abs(ends[1] - ends[0]), bottom - top);
    ctx.globalAlpha = 1;
  }
  if (shared.cursor === null) return;
  const x = axes.across(shared.cursor);
  if (x < left || x > right) return;
  ctx.strokeStyle = ink.text;
  ctx.globalAlpha = 0.5;
  line(ctx, x, top, x, bottom);
  ctx.globalAlpha = 1;
  for (const { points, color } of visible) {
    const at = points.nearest(shared.cursor);
    if (at < 0) continue;
    ctx.fillStyle = color;
    const y = axes.down(points.y[at]);
    if (y >= top && y <= bottom) dot(ctx, axes.across(points.x[at]), y, 3);
  }
}

function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

function dot(ctx, x, y, radius) {
  if (!Number.isFinite(y)) return;
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
}
