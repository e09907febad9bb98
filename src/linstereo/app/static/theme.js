// Before the first paint: the colour scheme that the reader chose, if any.
const chosenScheme = localStorage.getItem("scheme");
if (chosenScheme === "light" || chosenScheme === "dark") document.documentElement.dataset.scheme = chosenScheme;
