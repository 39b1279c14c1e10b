// Schedules: lists and pages follow what happens; the form shows the next runs of its rule while it is
// typed.

import "./following.js";

const form = document.getElementById("schedule");

// The newest answer counts, in whatever order they come.
let asked = 0;
let timer = 0;

async function preview() {
  const mine = ++asked;
  const data = new FormData(form);
  data.set("action", "preview");
  try {
    const answer = await fetch(location.href, { method: "POST", body: data });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const there = page.querySelector('[data-part="preview"]');
    if (mine === asked && there) form.querySelector('[data-part="preview"]').replaceChildren(...there.childNodes);
  } catch {
    // The button is still there.
  }
}

form?.addEventListener("input", (event) => {
  if (!["how", "every", "unit", "cron", "time_zone", "anchor_at"].includes(event.target.name)) return;
  if (event.target.name === "cron" || event.target.name === "time_zone") form.elements["s-cron-on"].checked = true;
  if (event.target.name === "every" || event.target.name === "unit") form.elements["s-interval"].checked = true;
  clearTimeout(timer);
  timer = setTimeout(preview, 350);
});
