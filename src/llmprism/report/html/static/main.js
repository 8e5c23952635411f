// Puts the page together.

const THEMES = ["auto", "light", "dark"];

function themeButton() {
  const button = byId("theme");
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "auto";
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    button.textContent = `Theme: ${next}`;
    if (openJob.view) openJob.view.draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => openJob.view && openJob.view.draw());
}

function navigation() {
  const links = [["findings", "Findings"], ["cluster", "Cluster"], ["jobs", "Jobs"], ["switches", "Switches"], ["input", "Input"]];
  byId("nav").append(...links.filter(([id]) => byId(id).childElementCount).map(([id, name]) => el("a", { href: `#${id}` }, name)));
}

renderVerdict();
renderFindings();
renderCluster();
renderJobs();
renderSwitches();
renderInput();
navigation();
themeButton();
document.documentElement.dataset.ready = "true";
