// Runs over each other: a chart for each thing that was measured, a colour for each run.

const SHOWN = 4; // charts, at most; the rest is folded away

class Overlay extends Together {
  constructor() {
    super();
    this.hidden = new Set(); // runs, by their place
    this.charts = new Map();
    this.runs = [];
    this.best = null;
    this.first = el("div", { class: "nitro-charts nitro-side-by-side" });
    this.rest = el("div", { class: "nitro-charts nitro-side-by-side" });
    this.more = el("details", { class: "nitro-more", ontoggle: () => this.redraw() },
      el("summary", {}, "other curves"), this.rest);
    this.readout = el("div", { class: "nitro-readout", "aria-live": "polite" });
    this.element = el("div", {}, this.first, this.readout, this.more);
    this.watch(this.element);
  }

  get all() { return [...this.charts.values()]; }

  keyOf({ run, label }) { return `${run}\n${label}`; }

  // The runs, and the charts in their order; a chart stays where it is once it is there.
  update({ rows, charts, head, columns }) {
    this.shown ??= Math.min(SHOWN, columns.filter((one) => one.kind === "metric").length || SHOWN);
    this.runs = rows;
    this.best = head.best;
    for (const label of charts) this.chart(label);
    for (const points of this.store.values()) points.about.bold = rows[points.about.run]?.run === this.best;
  }

  chart(label) {
    if (!this.charts.has(label)) {
      const made = new Chart(label, this, { log: label === "loss" || label.endsWith("_loss") });
      (this.charts.size < this.shown ? this.first : this.rest).append(made.element);
      this.charts.set(label, made);
    }
    return this.charts.get(label);
  }

  chartOf(about) {
    const chart = this.chart(about.label);
    const row = this.runs[about.run];
    Object.assign(about, { group: about.run, color: row.color, label: row.run, bold: row.run === this.best });
    return chart;
  }

  toggle(place) {
    if (!this.hidden.delete(place)) this.hidden.add(place);
    this.redraw();
  }

  draw() {
    this.more.hidden = this.charts.size <= this.shown;
    for (const chart of this.all) {
      chart.element.hidden = chart.isEmpty;
      if (this.more.open || chart.element.parentElement === this.first) chart.draw();
    }
    this.drawn?.();
    setText(this.readout, this.cursor === null ? "" : `step ${Math.round(this.cursor).toLocaleString("en-US")}`);
  }
}

// A row for each run: what it is, the values that differ, its last numbers.
class Table {
  constructor(overlay) {
    this.overlay = overlay;
    this.rows = [];
    this.head = el("thead");
    this.body = el("tbody");
    this.element = el("div", { class: "nitro-wide", tabindex: 0, role: "region", "aria-label": "runs" },
      el("table", { class: "nitro-table" }, this.head, this.body));
  }

  update({ columns, rows, head }) {
    const key = JSON.stringify([columns, rows.map((row) => row.run)]);
    if (key !== this.key) this.build(columns, rows);
    this.key = key;
    rows.forEach((row, place) => {
      const made = this.rows[place];
      setAttribute(made.row, "data-best", row.run === head.best ? "yes" : null);
      setText(made.best, row.run === head.best ? "best" : "");
      [row.phase, row.step, ...row.cells].forEach((value, at) => setText(made.cells[at], value === "" || value === null ? "" : shortNumber(value)));
    });
    this.mark();
  }

  build(columns, rows) {
    const cell = (value, tag = "td") => el(tag, { class: value?.kind === "value" ? null : "nitro-number" }, value?.name ?? "");
    const names = [{ name: "phase", kind: "value" }, { name: "step" }, ...columns];
    this.head.replaceChildren(el("tr", {}, el("th", {}, "run"), ...names.map((one) => cell(one, "th"))));
    this.rows = rows.map((row, place) => {
      const swatch = el("span", { class: "nitro-swatch" });
      swatch.style.background = row.color;
      const button = el("button", {
        type: "button", class: "nitro-key", title: "show or hide", "aria-pressed": "true",
        onclick: () => this.overlay.toggle(place),
      }, swatch, el("span", { class: "nitro-name" }, row.run));
      const best = el("span", { class: "nitro-best" });
      const experiment = el("span", { class: "nitro-hint" }, row.experiment);
      const cells = names.map((one) => cell({ kind: one.kind }));
      return { row: el("tr", {}, el("th", { scope: "row" }, button, experiment, best), ...cells), button, best, cells };
    });
    this.body.replaceChildren(...this.rows.map((one) => one.row));
  }

  mark() {
    this.rows.forEach(({ button }, place) => setAttribute(button, "aria-pressed", String(!this.overlay.hidden.has(place))));
  }
}

class ComparisonView {
  constructor(link, root) {
    this.link = link;
    this.charts = new Overlay();
    this.table = new Table(this.charts);
    this.charts.drawn = () => this.table.mark();
    this.title = el("span", { class: "nitro-title" });
    this.phase = el("span", { class: "nitro-phase", role: "status" });
    this.lines = el("div", { class: "nitro-lines nitro-tall", tabindex: 0, "aria-label": "what else differs" });
    this.also = el("details", { class: "nitro-more" }, el("summary", {}, "hooks, programs and changes that differ"), this.lines);
    this.waiting = el("div", { class: "nitro-waiting" }, "waiting for the kernel …");
    this.body = el("div", { class: "nitro-body", hidden: true },
      el("header", { class: "nitro-charthead" }, this.title, this.phase),
      this.charts.element, this.table.element, this.also);
    this.element = el("div", { class: "nitro-panel nitro-comparison" }, this.waiting, this.body);
    holdClicks(this.element);
    holdKeys(this.element);
    root.append(this.element);
    this.hiding = new Hiding();
    for (const [message, buffers] of link.recent) this.take(message, buffers, message.t === "full");
    link.views.add(this);
    this.update();
    this.timer = setInterval(() => this.update(), 500);
  }

  take(message, buffers, anew) {
    this.charts.update(this.link.state);
    this.charts.take(message.series, buffers, anew);
    if (message.state.lines) {
      this.lines.replaceChildren(...message.state.lines.map((text) => el("div", { "data-kind": { "+": "good", "-": "bad" }[text[0]] }, el("span", {}, text))));
    }
  }

  update() {
    const { state, unsent, silent } = this.link;
    this.waiting.hidden = state !== null;
    this.body.hidden = state === null;
    setText(this.waiting, unsent === null ? "waiting for the kernel …" : NO_ANSWER);
    if (state === null) return;
    const { head } = state;
    this.hiding.hide(head.name);
    const best = `runs, best: the ${head.mode === "min" ? "lowest" : "highest"} last ${head.metric}`;
    setText(this.title, state.rows.length === 1 ? "1 run" : `${state.rows.length} ${best}`);
    setText(this.phase, silent ? NO_ANSWER : head.live ? "live" : "ended");
    setAttribute(this.phase, "data-phase", silent ? "silent" : head.live ? "live" : "done");
    this.table.update(state);
    this.also.hidden = !state.lines.length;
  }

  close() {
    clearInterval(this.timer);
    this.link.views.delete(this);
    this.charts.close();
    this.hiding.close();
    this.element.remove();
  }
}

export default widget((model) => new Link(model), (link, root) => new ComparisonView(link, root));
