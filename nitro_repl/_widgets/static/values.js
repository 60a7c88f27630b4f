// A row for each live value: a slider, a number box, what it follows, and its next value.

const OWN_MS = 500; // after one's own change nothing is written back for so long, at least
const SEND_MS = 100; // between two values of one drag

class Values {
  constructor(send, pending) {
    this.send = send;
    this.pending = pending; // whether a command is still on its way
    this.rows = new Map();
    this.list = el("div", { class: "nitro-values" });
    this.element = el("section", { class: "nitro-side", "aria-label": "live values" },
      el("div", { class: "nitro-charthead" }, el("span", { class: "nitro-title" }, "live values"),
        el("span", { class: "nitro-hint" }, "from the next step on, no compile")),
      this.list);
  }

  update(values, live) {
    const names = new Set(values.map((v) => v.name));
    for (const [name, row] of this.rows) {
      if (!names.has(name)) { row.element.remove(); this.rows.delete(name); }
    }
    for (const value of values) {
      if (!this.rows.has(value.name)) {
        const row = new ValueRow(value, this.send, this.pending);
        this.rows.set(value.name, row);
        this.list.append(row.element);
      }
      this.rows.get(value.name).update(value, live);
    }
    this.element.hidden = !values.length;
  }

  tick() { for (const row of this.rows.values()) row.refresh(); }
}

class ValueRow {
  constructor(about, send, pending) {
    this.name = about.name;
    this.pending = pending;
    this.held = false;
    this.send = send;
    this.touched = -Infinity;
    this.timer = null;
    this.scale = scaleOf(about);
    const label = `value of ${about.name}`;
    this.slider = this.scale && el("input", {
      type: "range", min: 0, max: 1, step: "any", class: "nitro-slider", "aria-label": label,
      oninput: () => this.slid(this.scale.value(Number(this.slider.value))),
      onpointerdown: () => { this.held = true; },
      onpointerup: () => { this.held = false; },
      onlostpointercapture: () => { this.held = false; },
      onblur: () => { this.held = false; },
    });
    this.box = about.kind === "bool"
      ? el("input", { type: "checkbox", "aria-label": label, onchange: () => this.chosen(this.box.checked) })
      : el("input", {
        type: "text", inputmode: "decimal", class: "nitro-box", "aria-label": label, spellcheck: "false",
        onchange: () => this.typed(), onfocus: () => this.box.select(),
        onkeydown: (event) => { if (event.key === "Enter") this.box.blur(); },
      });
    this.fixed = el("span", { class: "nitro-fixed" });
    this.state = el("span", { class: "nitro-state" });
    this.button = el("button", { type: "button", class: "nitro-small", onclick: () => this.press() });
    this.element = el("div", { class: "nitro-row", title: about.doc || null },
      el("span", { class: "nitro-name" }, ...breakable(about.name)),
      this.slider || el("span", { hidden: true }), about.kind === "array" ? this.fixed : this.box, this.state, this.button);
  }

  update(about, live) { this.about = about; this.live = live; this.refresh(); }

  get locked() { return !this.live || this.about.follows === "scheduled" || this.about.kind === "array"; }

  // Show what the kernel says, but never against the hand that is moving it.
  refresh() {
    const { about } = this;
    if (!about) return;
    const value = about.next ?? about.value;
    setText(this.fixed, about.value ?? "");
    if (this.slider) this.slider.disabled = this.locked;
    this.box.disabled = this.locked;
    const scheduled = about.follows === "scheduled";
    const held = about.follows && !scheduled;
    const words = scheduled ? "scheduled" : held ? "set, not scheduled"
      : about.changed ? `default ${shortNumber(about.default)}` : "";
    setText(this.state, words);
    this.state.hidden = !words;
    setAttribute(this.element, "data-changed", about.changed || held ? "yes" : null);
    this.action = scheduled ? "override" : held || about.changed ? "unset" : null;
    const press = scheduled ? "override" : held ? "back to schedule" : "reset";
    setText(this.button, press);
    setAttribute(this.button, "aria-label", `${press}: ${this.name}`);
    this.button.hidden = !(this.action && this.live);
    if (this.held || this.timer || performance.now() - this.touched < OWN_MS) return;
    if (this.pending(`set ${this.name}`)) return;
    if (about.kind === "bool") { this.box.checked = value === true; return; }
    if (document.activeElement !== this.box || !this.box.matches(":focus")) {
      this.write(value);
      setAttribute(this.box, "aria-invalid", null);
    }
    if (this.slider && typeof value === "number") this.slider.value = String(this.scale.place(value));
  }

  write(value) {
    const text = typeof value === "number" ? String(Number(value.toPrecision(6))) : shortNumber(value);
    if (this.box.value !== text) this.box.value = text;
  }

  // What is no number goes out as it was typed: the run refuses it and says why.
  typed() {
    const text = this.box.value.trim();
    const value = Number(text);
    const wrong = text === "" || !Number.isFinite(value);
    setAttribute(this.box, "aria-invalid", wrong ? "true" : null);
    this.chosen(wrong ? text : value);
  }

  slid(value) { this.chosen(this.about.kind === "int" ? Math.round(value) : value); }

  // At most one message in SEND_MS; the last value always goes out.
  chosen(value) {
    this.touched = performance.now();
    this.last = value;
    if (typeof value === "number") {
      this.write(this.last);
      if (this.slider) this.slider.value = String(this.scale.place(this.last));
    }
    if (!this.timer) this.ship();
  }

  ship() {
    const sent = this.last;
    this.send("set", { name: this.name, value: sent });
    this.timer = setTimeout(() => {
      this.timer = null;
      if (this.last !== sent) this.ship();
    }, SEND_MS);
  }

  press() {
    if (this.action === "override") this.send("override", { name: this.name, value: this.about.next ?? this.about.value });
    else if (this.action) this.send("unset", { name: this.name });
    this.touched = -Infinity;
  }
}

// From a value to the place of the slider, 0 to 1, and back; null where there is no range.
function scaleOf({ kind, bounds, log, hyper, default: first }) {
  if (kind !== "float" && kind !== "int") return null;
  let [low, high] = bounds ?? [];
  if (!bounds) {
    if (!hyper || typeof first !== "number" || !(first > 0)) return null;
    [low, high, log] = [first / 100, first * 100, true];
  }
  if (log && low > 0) {
    const [a, b] = [Math.log(low), Math.log(high)];
    return {
      place: (v) => Math.min(Math.max((Math.log(v) - a) / (b - a), 0), 1),
      value: (p) => Number(Math.exp(a + p * (b - a)).toPrecision(3)),
    };
  }
  return {
    place: (v) => Math.min(Math.max((v - low) / (high - low), 0), 1),
    value: (p) => Number((low + p * (high - low)).toPrecision(4)),
  };
}
