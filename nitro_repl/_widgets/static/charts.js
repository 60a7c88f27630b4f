// The charts of a panel: losses, metrics, values.

class Charts extends Together {
  constructor() {
    super();
    this.valueNames = new Set();
    this.losses = new Chart("loss", this, { log: true });
    this.metrics = new Chart("metrics", this);
    this.values = new Chart("values", this, { log: true });
    this.readout = el("div", { class: "nitro-readout", "aria-live": "polite" });
    this.more = el("details", { class: "nitro-more", ontoggle: () => this.redraw() },
      el("summary", {}, "learning rate, gradient norm and other values"), this.values.element);
    this.element = el("div", { class: "nitro-charts" },
      this.losses.element, this.metrics.element, this.readout, this.more);
    this.watch(this.element);
  }

  get all() { return [this.losses, this.metrics, this.values]; }

  keyOf({ split, name }) { return `${split}\n${name}`; }

  chartOf({ split, name }) {
    if (name === "loss" || name.endsWith("_loss")) return this.losses;
    if (split === "train" && (name === "grad_norm" || this.valueNames.has(name))) return this.values;
    return this.metrics;
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
}
