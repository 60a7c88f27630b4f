// The head with its buttons, the programs, the notices and the log.

class Head {
  constructor(send) {
    this.send = send;
    this.name = el("span", { class: "nitro-experiment" });
    this.run = el("span", { class: "nitro-run" });
    this.phase = timed("span", "nitro-phase");
    this.bar = el("progress", { class: "nitro-bar", max: 1, "aria-label": "steps done" });
    this.facts = el("div", { class: "nitro-facts" });
    this.count = el("input", { type: "number", min: 1, value: 1, class: "nitro-count", "aria-label": "steps to advance",
      onkeydown: (event) => { if (event.key === "Enter") this.buttons.advance.click(); },
    });
    const button = (verb, text, title, given = () => ({})) => {
      const made = el("button", { type: "button", title, "data-verb": verb, onclick: () => send(verb, given()) }, text);
      return made;
    };
    this.buttons = {
      pause: button("pause", "Pause", "pause at the next step boundary"),
      resume: button("resume", "Resume", "go on"),
      advance: button("advance", "Advance", "do so many steps, then pause", () => ({ n: this.count.value === "" ? "" : Number(this.count.value) })),
      swap: button("swap", "Swap", "compile edited code behind the running programs, then switch"),
      stop: button("stop", "Stop", "end the run at the next step boundary; its state is kept"),
    };
    const { pause, resume, advance, swap, stop } = this.buttons;
    this.note = timed("div", "nitro-note");
    this.element = el("header", { class: "nitro-head" },
      el("div", { class: "nitro-headline" }, this.name, this.run, this.phase, this.facts),
      this.bar,
      el("div", { class: "nitro-buttons", role: "group", "aria-label": "control of the run" },
        pause, resume, el("span", { class: "nitro-joined" }, advance, this.count), swap, stop, this.note));
  }

  update(state, panel) {
    const { clock, silent } = panel;
    const queued = panel.queued();
    const { head, progress: p } = state;
    setText(this.name, head.experiment);
    setText(this.run, head.run);
    const since = clock() - p.phase_at;
    const busy = p.phase.startsWith("compiling") || p.phase === "starting";
    setTimed(this.phase, silent ? NO_ANSWER : p.phase, busy && !silent ? since : null);
    setAttribute(this.phase, "data-phase", silent ? "silent" : p.phase.split(" ")[0]);
    const done = p.total ? p.step / p.total : null;
    this.bar.hidden = done === null;
    if (done !== null) this.bar.value = Math.min(done, 1);
    const of = (now, total) => now.toLocaleString("en-US") + (total === null ? "" : "/" + total.toLocaleString("en-US"));
    const facts = [["step", of(p.step, p.total)], ["epoch", of(p.epoch, p.epochs)]];
    if (p.loss !== null) facts.push(["loss", shortNumber(p.loss)]);
    if (p.rate !== null) facts.push(["steps/s", shortNumber(p.rate, 3)]);
    if (p.eta) facts.push(["left", timeSpan(p.eta)]);
    if (typeof p.wait === "number") facts.push(["data wait", Math.round(100 * p.wait) + " %"]);
    showFacts(this.facts, facts);
    this.enable(head, p.phase, panel.reachable);
    const asked = queued.join("; ");
    setTimed(this.note, asked || p.note, asked || !p.note ? null : clock() - p.note_at);
  }

  enable({ live, ended }, phase, reachable) {
    const paused = phase === "paused";
    const on = { pause: live && !paused, resume: live && paused, advance: live, stop: live, swap: live || ended };
    const all = Object.values(this.buttons);
    const focused = all.find((button) => button === document.activeElement);
    for (const [verb, button] of Object.entries(this.buttons)) button.disabled = !(on[verb] && reachable);
    this.count.disabled = !(live && reachable);
    // Who works with the keyboard stays where the buttons are.
    if (focused?.disabled) all.find((button) => !button.disabled)?.focus({ preventScroll: true });
  }
}

// A text that is read out when it changes, and a time beside it that is not.
function timed(tag, name) {
  return el(tag, { class: name, role: "status" }, el("span"), el("span", { "aria-hidden": "true" }));
}

function setTimed({ children: [text, time] }, said, seconds) {
  setText(text, said);
  setText(time, seconds === null ? "" : ` ${timeSpan(Math.max(0, seconds))}`);
}

function showFacts(box, facts) {
  while (box.children.length > facts.length) box.lastChild.remove();
  while (box.children.length < facts.length) {
    box.append(el("span", { class: "nitro-fact" }, el("span", { class: "nitro-label" }), el("b")));
  }
  facts.forEach(([label, text], place) => {
    const [name, value] = box.children[place].children;
    setText(name, label);
    setText(value, text);
  });
}

class Programs {
  constructor() {
    this.chips = el("div", { class: "nitro-programs" });
    this.edit = el("div", { class: "nitro-edit" });
    this.element = el("section", { "aria-label": "compiled programs" },
      el("div", { class: "nitro-charthead" }, el("span", { class: "nitro-title" }, "programs")),
      this.chips, this.edit);
  }

  update(programs, edit, progress, clock) {
    const box = this.chips;
    setText(this.edit, edit);
    this.edit.hidden = !edit;
    while (box.children.length > programs.length) box.lastChild.remove();
    while (box.children.length < programs.length) {
      box.append(el("div", { class: "nitro-program" },
        el("span", { class: "nitro-light", "aria-hidden": "true" }), el("b"), el("span", { class: "nitro-outcome" }),
        el("span", { class: "nitro-why" })));
    }
    programs.forEach((program, place) => {
      const chip = box.children[place];
      const [, name, outcome, why] = chip.children;
      const at = progress.note === `compiling ${program.name}` ? progress.note_at : progress.phase_at;
      setText(name, program.name);
      setText(outcome, program.busy ? `compiling ${timeSpan(Math.max(0, clock() - at))}`
        : program.stale ? "stale" : program.outcome || "fresh");
      const cost = program.cost > 0.05 ? ` (${timeSpan(program.cost)})` : "";
      const said = [program.stale && !program.busy ? `${program.outcome}; swap takes the edit` : "", program.why + cost]
        .filter((text) => text.trim()).join(". ");
      setText(why, program.stale && !program.busy ? "swap takes the edit" : said);
      setAttribute(chip, "title", said || null);
      setAttribute(chip, "data-state", program.busy ? "busy" : program.stale ? "stale" : "fresh");
    });
  }
}

class Notices {
  constructor() {
    this.closed = 0;
    this.error = el("pre", { class: "nitro-error", role: "alert", tabindex: 0 });
    this.list = el("div", { class: "nitro-notices", role: "alert" });
    this.element = el("div", {}, this.error, this.list);
  }

  update(error, notices) {
    setText(this.error, error);
    this.error.hidden = !error;
    const open = notices.filter((one) => one.id > this.closed);
    const key = open.map((one) => one.id).join();
    if (key === this.key) return;
    this.key = key;
    this.list.replaceChildren(...open.map((one) => el("div", { class: "nitro-notice" },
      el("pre", {}, one.text),
      el("button", {
        type: "button", class: "nitro-small", "aria-label": "dismiss",
        onclick: () => { this.closed = one.id; this.update(error, open); },
      }, "×"))));
  }
}

const LOG_LINES = 100;

class Log {
  constructor() {
    this.atEnd = true; // who scrolled up stays there
    this.lines = el("div", {
      class: "nitro-lines", role: "log", tabindex: 0, "aria-label": "log of the run",
      onscroll: ({ target: box }) => { this.atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 20; },
    });
    new ResizeObserver(() => { if (this.atEnd) this.toEnd(); }).observe(this.lines);
    this.element = el("details", { class: "nitro-log", open: true }, el("summary", {}, "log"), this.lines);
  }

  take(lines, anew) {
    const box = this.lines;
    if (anew) box.replaceChildren();
    for (const one of lines) {
      if (one.key) [...box.children].findLast((line) => line.dataset.key === one.key)?.remove();
      box.append(el("div", { "data-kind": one.kind, "data-key": one.key },
        el("time", {}, clockTime(one.at)), el("span", {}, one.text)));
    }
    while (box.children.length > LOG_LINES) box.firstChild.remove();
    this.element.hidden = !box.children.length;
    if (this.atEnd || anew) this.toEnd();
  }

  toEnd() { this.lines.scrollTop = this.lines.scrollHeight; }
}
