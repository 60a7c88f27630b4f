// The panel: what the kernel says goes to its parts, what is clicked goes to the kernel.

const QUEUED_MS = 400; // without a word from the kernel: a click waits for a cell to end
const AGAIN_MS = 2000; // then a click is sent again, later and later: the kernel does it once
const LATEST_MS = 30_000;

class Panel extends Link {
  constructor(model) {
    super(model);
    this.page = Math.random().toString(36).slice(2, 10);
    this.sent = new Map();
    this.count = 0;
    this.answered = 0; // the latest of the clicks that were heard
    this.failed = null; // in words, what was not sent
    this.lost = null; // the last one that got lost, and when that was known
  }

  tick() {
    super.tick();
    this.sendAgain();
  }

  send(verb, given) {
    const message = { t: "do", id: `${this.page}-${++this.count}`, verb, given };
    const name = given.name ? `${verb} ${given.name}` : verb;
    this.failed = this.lost = null;
    if (this.post(message)) {
      // Of the values that one thing passes through the last one counts.
      for (const other of this.sent.values()) if (other.verb === name && verb === "set") other.old = true;
      this.sent.set(message.id, { verb: name, at: performance.now(), place: this.count, message, wait: AGAIN_MS });
    } else this.failed = `${name} was not sent: ${NO_ANSWER} (${this.unsent})`;
    this.update();
  }

  // What is not heard of may be lost, or the word of it was; nothing goes out after what came later.
  sendAgain() {
    const now = performance.now();
    for (const [id, one] of this.sent) {
      if (now - one.at < one.wait) continue;
      if (one.old || one.place < this.answered) {
        this.sent.delete(id);
        if (!one.old) this.lost = { verb: one.verb, at: now };
      } else if (this.next !== null && this.post(one.message)) {
        one.wait += Math.min(one.wait, LATEST_MS);
      }
    }
  }

  heard(message) {
    this.failed = null;
    for (const id of message.heard ?? []) {
      this.answered = Math.max(this.answered, this.sent.get(id)?.place ?? 0);
      this.sent.delete(id);
    }
  }

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
      .map((one) => Math.min(now - one.at, this.quiet) > SILENT_MS ? `${one.verb}: ${NO_ANSWER}`
        : this.state?.head.live && this.quiet < ALIVE_MS ? `${one.verb} is queued: the kernel is busy with a cell`
          : `${one.verb} is sent: no word from the kernel yet`);
    const waiting = (this.state?.waiting ?? []).filter((one) => this.clock() - one.at > 0.5 && one.verb !== "advance")
      .map((one) => `${one.verb} waits for the next step boundary`);
    const lost = this.lost && now - this.lost.at < SILENT_MS ? [`${this.lost.verb} got lost on its way: click again`] : [];
    return [...new Set([...(this.failed ? [this.failed] : []), ...lost, ...unheard, ...waiting])];
  }
}

const CHART_PX = 340; // that a chart can grow to, and what the log has at least
const LOG_PX = 190;
const PROGRAM_PX = 46;

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
    this.left = el("div", { class: "nitro-column" }, this.charts.element);
    this.right = el("div", { class: "nitro-column" },
      this.values.element, this.programs.element, this.log.element);
    this.main = el("div", { class: "nitro-main" }, this.left, this.right);
    this.waiting = el("div", { class: "nitro-waiting" }, "waiting for the kernel …");
    this.body = el("div", { class: "nitro-body", hidden: true },
      this.head.element, this.notices.element,
      this.main);
    this.element = el("div", { class: "nitro-panel" }, this.waiting, this.body);
    holdClicks(this.element);
    holdKeys(this.element);
    root.append(this.element);
    this.hiding = new Hiding();
    for (const [message, buffers] of panel.recent) this.take(message, buffers, message.t === "full");
    panel.views.add(this);
    this.update();
    this.timer = setInterval(() => { this.update(); this.values.tick(); }, 250);
  }

  take(message, buffers, anew) {
    for (const value of message.state.values ?? []) this.charts.valueNames.add(value.name);
    this.charts.epochSteps = this.panel.state.progress.epoch_steps;
    const keys = new Set(message.flags.map((one) => one.key).filter(Boolean)); // these are known better now
    const flags = anew ? [] : this.charts.flags.filter((one) => !keys.has(one.key));
    this.charts.flags = [...flags, ...message.flags].slice(-300);
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
    this.hiding.hide(state.head.run);
    this.head.update(state, panel);
    this.values.update(state.values, state.head.live && panel.reachable);
    this.programs.update(state.programs, state.edit, state.progress, panel.clock);
    this.notices.update(state.error, state.notices);
    this.balance(state);
  }

  // The log fills the column that is shorter; it moves only where what is shown changes.
  balance({ values, programs }) {
    const wide = getComputedStyle(this.main).gridTemplateColumns.split(" ").length > 1;
    const charts = [this.charts.losses, this.charts.metrics].filter((one) => !one.element.hidden).length;
    const key = [wide, values.length, programs.length, charts].join();
    const tall = this.values.element.offsetHeight;
    if (key === this.balanced || (!tall && values.length)) return;
    this.balanced = key;
    const needed = tall + PROGRAM_PX * programs.length + LOG_PX;
    const column = wide && needed > CHART_PX * charts ? this.left : this.right;
    if (this.log.element.parentElement === column) return;
    column.append(this.log.element);
    this.log.toEnd();
  }

  close() {
    clearInterval(this.timer);
    this.panel.views.delete(this);
    this.charts.close();
    this.hiding.close();
    this.element.remove();
  }
}

export default widget((model) => new Panel(model), (panel, root) => new View(panel, root));
