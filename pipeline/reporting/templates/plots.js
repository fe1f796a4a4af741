// Unpacks plotly.js, which lies in the page itself, and draws each chart in the page's own colours.
(async () => {
  const boxes = [...document.querySelectorAll(".plot")];
  const style = getComputedStyle(document.documentElement);
  const coloured = (_, value) => {
    const name = typeof value === "string" && /^var\((--[\w-]+)\)$/.exec(value);
    return name ? style.getPropertyValue(name[1]).trim() : value;
  };
  const touched = matchMedia("(pointer: coarse)").matches;  // a finger scrolls the page, it does not zoom
  const draw = box => {
    const figure = JSON.parse(document.getElementById(`${box.id}-data`).textContent, coloured);
    const layout = { ...figure.layout, autosize: true, width: undefined };
    if (touched) layout.dragmode = false;
    const buttons = [["zoom2d", "pan2d", "resetScale2d"]];  // none that leaves the page
    return Plotly.react(box, figure.data, layout, {
      responsive: true, displaylogo: false, modeBarButtons: buttons, scrollZoom: false,
    });
  };
  try {
    const packed = atob(document.getElementById("plotly").textContent);
    const bytes = Uint8Array.from(packed, letter => letter.charCodeAt(0));
    const source = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const script = document.createElement("script");
    script.textContent = await new Response(source).text();
    document.head.append(script);
    for (const box of boxes) {
      await draw(box);
      await new Promise(later => setTimeout(later));  // the page stays usable meanwhile
    }
    const again = () => boxes.forEach(draw);
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", again);
    document.documentElement.dataset.plots = "drawn";
  } catch (error) {
    boxes.forEach(box => { box.hidden = true; });
    document.getElementById("undrawn").hidden = false;
    console.error(error);
  }
})();
