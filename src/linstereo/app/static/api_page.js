// The OpenAPI description as a page to read.
const make = (tag, text = "", ...children) => {
  const element = document.createElement(tag);
  element.textContent = text;
  element.append(...children);
  return element;
};
const table = (heads, rows) => {
  const body = rows.map((cells) => make("tr", "", ...cells.map((cell, i) => (i === 0 ? make("td", "", make("code", cell)) : make("td", cell)))));
  return make("table", "", make("thead", "", make("tr", "", ...heads.map((head) => make("th", head)))), make("tbody", "", ...body));
};

for (const place of document.querySelectorAll("[data-origin]")) place.textContent = location.origin;
const description = await (await fetch("/openapi.json")).json();
for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, route] of Object.entries(methods)) {
    const section = make("section", "", make("h2", `${method.toUpperCase()} ${path}`), make("p", route.summary), make("p", (route.description ?? "").replaceAll("`", "")));
    const form = route.requestBody?.content["multipart/form-data"]?.schema.properties;
    if (form) section.append(table(["field", "meaning"], Object.entries(form).map(([name, field]) => [name, field.description + (field.enum ? `: ${field.enum.join(", ")}` : "")])));
    section.append(table(["status", "meaning"], Object.entries(route.responses).map(([status, answer]) => [status, answer.description])));
    document.getElementById("routes").append(section);
  }
}
