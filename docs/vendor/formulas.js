// Typesets formulas with KaTeX, which stands beside this file; pages make no request to another host.
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".arithmatex")) {
    const source = formula.textContent.trim();
    const isDisplay = source.startsWith("\\[");
    katex.render(source.slice(2, -2), formula, { displayMode: isDisplay, throwOnError: true });
  }
});
