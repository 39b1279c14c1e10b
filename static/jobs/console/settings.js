// The display preferences: what only the browser knows. The form works without.

const theme = document.getElementById("d-theme");
const zone = document.getElementById("d-time_zone");
const here = document.getElementById("d-here");

// Nothing chosen yet: the theme is the one that this browser shows.
const { dataset } = document.documentElement;
if (dataset.themeKept === "" && !document.querySelector("[data-display] .errorlist")) theme.value = dataset.theme;
document.addEventListener("coppice:theme", (event) => (theme.value = event.detail));

function draw() {
  const found = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const inForce = zone.value || document.body.dataset.adminServerTimezone;
  here.parentElement.hidden = !found || found === inForce;
  here.textContent = `Take ${found}, the zone of this browser`;
  here.value = found;
}

here.addEventListener("click", () => {
  zone.value = here.value;
  zone.focus();
  draw();
});
zone.addEventListener("input", draw);
draw();
