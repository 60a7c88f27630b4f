// A widget's line to the kernel: numbered messages come, and what misses one asks anew.

const HELLO_MS = 500;
const SILENT_MS = 6000; // what is live has a message sent every 2 s
const ALIVE_MS = 3000; // so it is known to be there, if only for so long after a message
const ANSWER_MS = 1000; // for a comm that was cut to show that it was not
const NO_ANSWER = "no answer from the kernel";
const MOST_POINTS = 100_000; // of a curve; then the thinned ones are asked for

class Link {
  constructor(model) {
    this.model = model;
    this.state = null;
    this.next = null;
    this.offset = 0;
    this.quiet = 0; // ms without a word, in which this page was there to hear one
    this.ticked = performance.now();
    this.unsent = null; // why nothing can be sent: the comm of a kernel that is gone
    this.cut = null; // when the front end let go of the comm; a restart of the kernel does that
    this.views = new Set();
    this.recent = [];
    model.on("msg:custom", (message, buffers) => this.take(message, buffers ?? []));
    model.on("comm_live_update", () => { this.cut = performance.now(); this.post({ t: "hello" }); });
    this.hello();
    this.asking = setInterval(() => this.tick(), HELLO_MS);
  }

  hello() {
    this.next = null;
    this.post({ t: "hello" });
  }

  // A page that stood still has not heard what waits for it: that is no silence.
  tick() {
    const now = performance.now();
    this.quiet += Math.min(now - this.ticked, 2 * HELLO_MS);
    this.ticked = now;
    this.ask();
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

  take(message, buffers) {
    if (message.t !== "full" && message.t !== "new") return;
    const anew = message.t === "full";
    if (!anew && this.next === null) return;
    if (!anew && message.base !== this.next) { this.hello(); return; }
    this.next = message.next;
    this.quiet = 0;
    this.unsent = this.cut = null;
    this.nudged = false;
    this.offset = message.now - Date.now() / 1000;
    this.state = { ...this.state, ...message.state };
    this.heard(message);
    for (const view of this.views) view.take(message, buffers, anew);
    this.keep(message, buffers, anew);
    this.update();
  }

  // A message came in; for who waits for an answer.
  heard() {}

  // For views that are made later: of all that came, the latest of each kind.
  keep(message, buffers, anew) {
    if (anew) this.recent = [];
    this.recent.push([message, buffers]);
    const longest = Math.max(0, ...[...this.views].map((view) => view.charts.longest));
    if (this.recent.length > 3000 || longest > MOST_POINTS) this.hello();
  }

  clock = () => Date.now() / 1000 + this.offset;

  // Whether nothing can be sent, or a kernel that was restarted has not answered.
  get gone() {
    return this.unsent !== null || (this.cut !== null && performance.now() - this.cut > ANSWER_MS);
  }

  get silent() { return Boolean(this.state?.head.live) && (this.quiet > SILENT_MS || this.gone); }

  // Whether something can reach the kernel; a run that has ended sends nothing by itself.
  get reachable() { return !this.gone && !this.silent; }

  update() { for (const view of this.views) view.update(); }

  close() { clearInterval(this.asking); }
}

// One factory for each model: its views share what came.
function widget(makeLink, makeView) {
  return () => {
    let link = null;
    return {
      initialize({ model }) {
        link = makeLink(model);
        return () => link.close();
      },
      render({ model, el: root }) {
        link ??= makeLink(model);
        const view = makeView(link, root);
        root.nitro = view;
        return () => view.close();
      },
    };
  };
}

// While a view is there, it hides the still picture of the same name.
class Hiding {
  constructor() {
    this.style = el("style");
    document.head.append(this.style);
  }

  hide(name) { setText(this.style, `.${CSS.escape("nitro-" + name)}{display:none}`); }

  close() { this.style.remove(); }
}
