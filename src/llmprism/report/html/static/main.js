// Puts the page together.

function themeButton() {
  const redraw = () => openJob.view && openJob.view.draw();
  applyTheme("auto");
  byId("theme").addEventListener("click", () => {
    applyTheme(nextTheme());
    redraw();
  });
  onPreference(redraw);
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
