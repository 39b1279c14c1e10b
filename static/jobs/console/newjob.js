// A new job: the form of a type at once, JSON set out, and what the job will do while one types.
// Everything works without this script too, by buttons.

import { replacePart } from "./patch.js";

const AFTER = 700; // milliseconds after the last key

const pick = document.getElementById("pick");
const form = document.getElementById("new-job");

document.getElementById("pick-go")?.setAttribute("hidden", "");
document.getElementById("type")?.addEventListener("change", () => pick.requestSubmit());

// JSON

const format = document.getElementById("format");
if (format) {
  const text = document.getElementById("payload");
  const wrong = document.getElementById("format-wrong");
  format.hidden = false;
  format.addEventListener("click", () => {
    try {
      JSON.parse(text.value);
    } catch (error) {
      wrong.textContent = error.message;
      return;
    }
    wrong.textContent = "";
    text.value = indented(text.value);
  });
}

// Set out without reading numbers: a large one must not lose its last digits.
function indented(json) {
  let depth = 0;
  let made = "";
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  tokens.forEach((token, place) => {
    const next = tokens[place + 1];
    const line = () => `\n${"  ".repeat(depth)}`;
    if (token === "{" || token === "[") {
      depth += 1;
      made += token + (next === "}" || next === "]" ? "" : line());
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const before = tokens[place - 1];
      made += (before === "{" || before === "[" ? "" : line()) + token;
    } else if (token === ",") {
      made += token + line();
    } else {
      made += token === ":" ? ": " : token;
    }
  });
  return made;
}

// What it will do

let timer = 0;
let asked = 0;

async function check() {
  const mine = (asked += 1);
  const body = new FormData(form);
  body.set("step", "check");
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { "X-Coppice-Part": "1" } });
    if (!answer.ok || mine !== asked) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    replacePart("preview", page);
  } catch {
    // The button does it as well.
  }
}

form?.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(check, AFTER);
});
