// Elements. Every text goes in as a text node: nothing from a run is read as HTML.

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(name, String(value));
    }
  }
  for (const child of children) {
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

const STILL_PX = 8;

// A button gets its click though what is above it grew, and moved it, since it was pressed.
function holdClicks(root) {
  let pressed = null;
  let off = false;
  root.addEventListener("pointerdown", (event) => {
    const button = event.target.closest("button");
    pressed = off = null;
    if (!button || event.button) return;
    pressed = { button, x: event.clientX, y: event.clientY };
    button.setPointerCapture(event.pointerId);
  });
  root.addEventListener("pointerup", (event) => {
    if (!pressed) return;
    const moved = Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > STILL_PX;
    const under = document.elementFromPoint(event.clientX, event.clientY);
    off = moved && !pressed.button.contains(under); // who drags off a button means no click
  });
  root.addEventListener("click", (event) => {
    if (off && event.detail) { event.stopPropagation(); event.preventDefault(); }
    off = false;
  }, true);
}

// A long name breaks where its words end.
function breakable(name) {
  const parts = name.split(/(?<=[_.])/);
  return parts.flatMap((part, place) => (place ? [el("wbr"), part] : [part]));
}

const OWN_KEYS = {
  BUTTON: ["Enter", " "],
  SUMMARY: ["Enter", " "],
  INPUT: [" ", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"],
  DIV: ["ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"], // it scrolls
};

// A notebook takes keys as its own shortcuts: not those that the focused control lives on.
function holdKeys(root) {
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (OWN_KEYS[event.target.tagName]?.includes(event.key)) event.stopPropagation();
    // A key that is held down is one press: what has the focus next is not pressed.
    if (event.repeat && event.target.tagName === "BUTTON") event.preventDefault();
  });
}

// Write only what differs, so that a selection or a focus stays where it is.
function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

function shortNumber(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  if (size >= 10 ** (digits - 1)) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(digits)));
}

function timeSpan(seconds) {
  if (seconds < 10) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  if (whole < 60) return whole + " s";
  const two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

function clockTime(at) {
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}
