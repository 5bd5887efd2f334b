// Draws the plots when they come into view, in the page's colours; narrow pages stack what stands side by side.
(() => {
  "use strict";
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 760;

  // Rows that the legend takes below a plot: beyond two, the plot grows by theirs.
  const legendRows = (data, width) =>
    Math.ceil(data.filter(trace => trace.showlegend !== false).reduce((sum, trace) => sum + 60 + 7 * trace.name.length, 0) / width);

  const themed = (layout, width, rows) => {
    const own = JSON.parse(JSON.stringify(layout));
    const across = Object.keys(own).filter(key => /^xaxis/.test(key));
    const pair = across.length > 1, panels = across.length;
    const lines = Math.max(...across.map(name => own[name].title.text.split("<br>").length));
    own.paper_bgcolor = own.plot_bgcolor = "rgba(0,0,0,0)";
    own.font = {family: "system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif", size: 13, color: colour("--ink")};
    own.hoverlabel = Object.assign({bgcolor: colour("--card"), font: {color: colour("--ink")}}, own.hoverlabel);
    for (const name of Object.keys(own).filter(key => /^[xy]axis/.test(key))) {
      Object.assign(own[name], {gridcolor: colour("--line"), linecolor: colour("--soft"), zerolinecolor: colour("--line"),
        automargin: true, fixedrange: narrow()});
    }
    own.width = width;
    own.height = 440;
    if (narrow()) {
      own.margin = Object.assign(own.margin, {l: 46, r: 6});
      own.height = 520;
      own.font.size = 11;
      own.legend.font = {size: 11};
      for (const name of Object.keys(own).filter(key => /^[xy]axis/.test(key))) {
        own[name].title = Object.assign({}, own[name].title, {font: {size: 11}});
      }
      if (pair) {
        for (let panel = 1; panel <= panels; panel++) {
          const suffix = panel > 1 ? panel : "";
          own["xaxis" + suffix].domain = [0, 1];
          own["yaxis" + suffix].domain = [1 - (panel - 0.12 - 0.05 * lines) / panels, 1 - (panel - 1) / panels];
        }
        own.height = 380 * panels;
      }
    }
    own.height += 30 * Math.max(0, rows - 2);
    return own;
  };

  // Megabytes of plotly are compiled with the first plot, after the page's text is there to be read.
  const wake = () => {
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  };
  const draw = node => {
    wake();
    const plot = plots[node.dataset.plot];
    Plotly.react(node, plot.data, themed(plot.layout, node.clientWidth, legendRows(plot.data, node.clientWidth)), {displaylogo: false, displayModeBar: false})
      .then(() => { node.dataset.drawn = "yes"; });
  };
  const nodes = [...document.querySelectorAll("[data-plot]")];
  const seen = new Set();
  const watch = new IntersectionObserver(entries => {
    for (const entry of entries.filter(entry => entry.isIntersecting && !seen.has(entry.target))) {
      seen.add(entry.target);
      draw(entry.target);
    }
  }, {rootMargin: "300px"});
  nodes.forEach(node => watch.observe(node));
  const again = () => seen.forEach(draw);
  let due;
  window.addEventListener("resize", () => { clearTimeout(due); due = setTimeout(again, 150); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("beforeprint", () => nodes.forEach(node => { seen.add(node); draw(node); }));
})();
