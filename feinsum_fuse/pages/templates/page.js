"use strict";
(() => {
  const data = document.getElementById("charts");
  const library = document.getElementById("library");
  const unpack = async () => {
    const bytes = Uint8Array.from(atob(library.textContent), letter => letter.charCodeAt(0));
    const script = document.createElement("script");
    script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(script);
  };
  const draw = () => {
    for (const [key, chart] of Object.entries(JSON.parse(data.textContent))) {
      const figure = document.getElementById("chart-" + key);
      const place = figure && figure.querySelector(".interactive");
      if (!place) continue;
      place.hidden = false;
      Plotly.newPlot(place.lastElementChild, chart.data, chart.layout, {responsive: true, displaylogo: false})
        .then(() => figure.classList.add("live"), () => { place.hidden = true; });
    }
  };
  if (data && library && window.DecompressionStream) unpack().then(() => { if (window.Plotly) draw(); });
  const mark = (section, loops, on) => {
    for (const other of section.querySelectorAll("[data-loops]")) {
      const shared = other.dataset.loops.split(" ").some(loop => loops.includes(loop));
      other.classList.toggle("chosen", on && shared);
    }
  };
  for (const section of document.querySelectorAll(".beside")) {
    for (const one of section.querySelectorAll("[data-loops]")) {
      const loops = one.dataset.loops.split(" ");
      for (const [event, on] of [["mouseenter", true], ["focusin", true], ["mouseleave", false], ["focusout", false]]) {
        one.addEventListener(event, () => mark(section, loops, on));
      }
    }
  }
})();
