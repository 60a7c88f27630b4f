// The panel: what the kernel says goes to its parts, what is clicked goes to the kernel.

const HELLO_MS = 500;
const QUEUED_MS = 400; // without a word from the kernel: a click waits for a cell to end
const SILENT_MS = 6000; // a live run has a message sent every 2 s
const NO_ANSWER = "no answer from the kernel";
const MOST_POINTS = 100_000; // of a curve; then the thinned ones are asked for

class Panel {
  constructor(model) {
    this.model = model;
    this.page = Math.random().toString(36).slice(2, 10);
    this.state = null;
    this.next = null;
    this.offset = 0;
    this.sent = new Map();
    this.count = 0;
    this.heardAt = performance.now();
    this.unsent = null; // why nothing can be sent: the comm of a kernel that is gone
    this.views = new Set();
    this.lines = [];
    this.flags = [];
    this.recent = [];
    model.on("msg:custom", (message, buffers) => this.take(message, buffers ?? []));
    this.hello();
    this.asking = setInterval(() => this.ask(), HELLO_MS);
  }

  hello() {
    this.next = null;
    this.post({ t: "hello" });
  }

  // Until everything came; and once where it grew silent, in case only a message was lost.
  ask() {
    if (this.next === null) this.hello();
    else if (this.silent && !this.nudged) { this.nudged = true; this.post({ t: "hello" }); }
  }

  post(message) {
    try {
      this.model.send(message);
      this.unsent = null;
    } catch (error) {
      this.unsent = String(error?.message ?? error);
    }
    return this.unsent === null;
  }

  send(verb, given) {
    const id = `${this.page}-${++this.count}`;
    const one = { verb: given.name ? `${verb} ${given.name}` : verb, at: performance.now() };
    this.failed = null;
    if (this.post({ t: "do", id, verb, given })) this.sent.set(id, one);
    else this.failed = `${one.verb} was not sent: ${NO_ANSWER} (${this.unsent})`;
    this.update();
  }

  take(message, buffers) {
    if (message.t !== "full" && message.t !== "new") return;
    const anew = message.t === "full";
    if (!anew && this.next === null) return;
    if (!anew && message.base !== this.next) { this.hello(); return; }
    this.next = message.next;
    this.heardAt = performance.now();
    this.unsent = this.failed = null;
    this.nudged = false;
    this.offset = message.now - Date.now() / 1000;
    this.state = { ...this.state, ...message.state };
    for (const id of message.heard) this.sent.delete(id);
    for (const view of this.views) view.take(message, buffers, anew);
    this.keep(message, buffers, anew);
    this.update();
  }

  // For views that are made later: of all that came, the latest of each kind.
  keep(message, buffers, anew) {
    if (anew) { this.recent = []; this.lines = []; this.flags = []; }
    this.recent.push([message, buffers]);
    const longest = Math.max(0, ...[...this.views].map((view) => view.charts.longest));
    if (this.recent.length > 3000 || longest > MOST_POINTS) this.hello();
  }

  clock = () => Date.now() / 1000 + this.offset;

  get silent() {
    const late = performance.now() - this.heardAt > SILENT_MS;
    return Boolean(this.state?.head.live) && (late || this.unsent !== null);
  }

  // Whether a click can reach the run; one that has ended sends nothing by itself.
  get reachable() { return this.unsent === null && !this.silent; }

  // Whether what was asked last is not done yet; the kernel cuts a long name.
  pending(verb) {
    const same = (other) => other === verb || (other.endsWith("…") && verb.startsWith(other.slice(0, -1)));
    const asked = [...this.sent.values(), ...(this.state?.waiting ?? [])];
    return asked.some((one) => same(one.verb));
  }

  // In words, what was clicked and is not done yet.
  queued() {
    const now = performance.now();
    const unheard = [...this.sent.values()].filter((one) => now - one.at > QUEUED_MS)
      .map((one) => now - Math.max(one.at, this.heardAt) > SILENT_MS ? `${one.verb}: ${NO_ANSWER}`
        : `${one.verb} is queued: the kernel is busy with a cell`);
    const waiting = (this.state?.waiting ?? []).filter((one) => this.clock() - one.at > 0.5 && one.verb !== "advance")
      .map((one) => `${one.verb} waits for the next step boundary`);
    return [...new Set([...(this.failed ? [this.failed] : []), ...unheard, ...waiting])];
  }

  update() { for (const view of this.views) view.update(); }

  close() { clearInterval(this.asking); }
}

class View {
  constructor(panel, root) {
    this.panel = panel;
    const send = (verb, given = {}) => panel.send(verb, given);
    this.head = new Head(send);
    this.charts = new Charts();
    this.values = new Values(send, (verb) => panel.pending(verb));
    this.programs = new Programs();
    this.notices = new Notices();
    this.log = new Log();
    this.waiting = el("div", { class: "nitro-waiting" }, "waiting for the kernel …");
    this.body = el("div", { class: "nitro-body", hidden: true },
      this.head.element, this.notices.element,
      el("div", { class: "nitro-main" }, this.charts.element, this.values.element),
      this.programs.element, this.log.element);
    this.element = el("div", { class: "nitro-panel" }, this.waiting, this.body);
    root.append(this.element);
    this.style = el("style");
    document.head.append(this.style);
    for (const [message, buffers] of panel.recent) this.take(message, buffers, message.t === "full");
    panel.views.add(this);
    this.update();
    this.timer = setInterval(() => { this.update(); this.values.tick(); }, 250);
  }

  take(message, buffers, anew) {
    for (const value of message.state.values ?? []) this.charts.valueNames.add(value.name);
    this.charts.epochSteps = this.panel.state.progress.epoch_steps;
    this.charts.flags = anew ? [...message.flags] : [...this.charts.flags, ...message.flags].slice(-300);
    this.charts.take(message.series, buffers, anew);
    if (message.flags.length) this.charts.redraw();
    if (message.lines.length || anew) this.log.take(message.lines, anew);
  }

  update() {
    const { panel } = this;
    const { state } = panel;
    this.waiting.hidden = state !== null;
    this.body.hidden = state === null;
    setText(this.waiting, panel.unsent === null ? "waiting for the kernel …" : NO_ANSWER);
    if (state === null) return;
    setText(this.style, `.${CSS.escape("nitro-" + state.head.run)}{display:none}`);
    this.head.update(state, panel);
    this.values.update(state.values, state.head.live && panel.reachable);
    this.programs.update(state.programs, state.edit, state.progress, panel.clock);
    this.notices.update(state.error, state.notices);
  }

  close() {
    clearInterval(this.timer);
    this.panel.views.delete(this);
    this.charts.close();
    this.style.remove();
    this.element.remove();
  }
}

// One factory for each model: its views share what came.
export default () => {
  let panel = null;
  return {
    initialize({ model }) {
      panel = new Panel(model);
      return () => panel.close();
    },
    render({ model, el: root }) {
      panel ??= new Panel(model);
      const view = new View(panel, root);
      root.nitro = view;
      return () => view.close();
    },
  };
};
