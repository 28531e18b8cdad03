// The page's colours: the system's, unless somebody chose. Runs before the page is painted, so that it does not flash.
(() => {
  const choices = ["system", "light", "dark"];
  const root = document.documentElement;

  function read() {
    try {
      return choices.includes(localStorage.theme) ? localStorage.theme : "system";
    } catch {
      return "system"; // storage is forbidden: the choice lasts as long as the page
    }
  }

  function apply(choice) {
    root.dataset.theme = choice;
    try {
      localStorage.theme = choice;
    } catch {
      // as above
    }
  }

  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => (button.textContent = `Theme: ${root.dataset.theme}`);
    button.addEventListener("click", () => {
      apply(choices[(choices.indexOf(root.dataset.theme) + 1) % choices.length]);
      name();
    });
    name();
  });
})();
