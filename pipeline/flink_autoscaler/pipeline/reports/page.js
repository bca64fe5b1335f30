// Draws each chart when it comes into view, in the colors of the page, and again when those change.
(() => {
  "use strict";
  const drawn = [];

  const paint = (doc) => {
    const colors = getComputedStyle(document.documentElement);
    const [back, text, dim, rule] = ["back", "text", "dim", "rule"].map(
      (name) => colors.getPropertyValue(`--${name}`).trim(),
    );
    const looks = {
      Figure: { background_fill_color: back, outline_line_color: rule },
      Legend: { background_fill_color: back, label_text_color: text },
      Grid: { grid_line_color: rule },
      Axis: {
        axis_label_text_color: dim, major_label_text_color: dim, axis_line_color: rule,
        major_tick_line_color: rule, minor_tick_line_color: null,
      },
    };
    for (const model of doc.all_models) {
      const kind = model.type.endsWith("Axis") ? "Axis" : model.type;
      if (kind in looks) {
        model.setv(looks[kind]);
      }
    }
  };

  const draw = async (figure) => {
    const item = JSON.parse(figure.querySelector("script").textContent);
    const views = await Bokeh.embed.embed_item(item, figure.querySelector(".plot"));
    const doc = [...views][0].model.document;
    drawn.push(doc);
    paint(doc);
    figure.dataset.drawn = "yes";
  };

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "600px" });

  document.querySelectorAll("figure.chart").forEach((figure) => watcher.observe(figure));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(paint));
})();
