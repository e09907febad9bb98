// The turbo colours as OpenCV has them, 256 times RGB, and maps painted with them.
const TABLE = "MBI7MhVDMxhKNBtRNR5YNiFfNyRmOCdtOSpzOi15Oy+APDKGPTWLPjiRPzuXPz6cQECiQUOnQUasQkmxQku1Q066RFG/RFTDRFbHRVnLRVzPRV7TRmHWRmTaRmbdRmngRmvjR27mR3HpR3PrR3buR3jwR3vyRn30RoD2RoL4RoX6Rof7RYr8RYz9RI/+Q5H+QpT/QZb/QJn/Ppv+PZ7+O6D9OqP8OKX7N6j6Nav4M633Ma/1L7L0LrTyLLfwKrnuKLzrJ77pJcDnI8PkIsXiIMffH8ndHsvaHM3YG9DVGtLSGtTQGdXNGNfKGNnIGNvFGN3CGN7AGOC9GeK7GeO5GuS2HOa0HeeyH+mvIOqsIuuqJeynJ+6kKu+hLPCeL/GbMvKYNfOUOPSRPPWOP/aKQ/eHRviESviATvl9Uvp6Vfp2WftzXfxvYfxsZf1paf1mbf5icf5fdf5cef5Zff9WgP9ThP9RiP9Oi/9Lj/9Jkv9Hlv5Emf5CnP5An/0/of09pPw8p/w6qfs5rPs4r/o3sfk2tPg2t/c1ufY1vPU0vvQ0wfM0w/E0xvA0yO80y+00zew00Oo00uk11Oc11+U12eQ22+I23eA339834d0349s45dk459c56dU569M57NE67s8678068cs68sk69Mc69cU69sM698E6+L45+bw5+ro5+7g4+7Y3/LM2/LE2/a41/aw0/qkz/qcy/qQx/qEw/p4v/pst/pks/pYr/pMq/pAp/Y0n/Yom/Icl/IQj+4Ei+34h+nsf+Xge+XUd+HIc928a9mwZ9WkY9GYX82MV8mAU8V0T8FsS71gR7VUQ7FMP61AO6k4N6EsM50kM5UcL5EUK4kMK4UEJ3z8I3T0I3DsH2jkH2DcG1jUG1DMF0jEF0C8Fzi0EzCsEyioEyCgDxSYDwyUDwSMCviECvCACuR4Ctx0CtBsBshoBrxgBrBcBqRYBpxQBpBMBoRIBnhABmw8BmA4BlQ0BkgsBjgoBiwkCiAgChQcCgQYCfgUCegQD";

export const turbo = Uint8Array.from(atob(TABLE), (letter) => letter.charCodeAt(0));

/** The number of the colour, 0 to 255, of a value; -1 where there is none. */
export function level(value, low, high, reverse) {
  if (!Number.isFinite(value)) return -1;
  const share = Math.min(Math.max((value - low) / Math.max(high - low, 1e-12), 0), 1);
  return Math.round((reverse ? 1 - share : share) * 255);
}

/** A map as pixels, black where there is no value. */
export function paint(values, width, height, { low, high, reverse = false }) {
  const image = new ImageData(width, height);
  const pixels = image.data;
  for (let i = 0; i < values.length; i++) {
    const colour = level(values[i], low, high, reverse);
    if (colour >= 0) {
      pixels[4 * i] = turbo[3 * colour];
      pixels[4 * i + 1] = turbo[3 * colour + 1];
      pixels[4 * i + 2] = turbo[3 * colour + 2];
    }
    pixels[4 * i + 3] = 255;
  }
  return image;
}

/** The 1st and the 99th percentile of the finite values, and the smallest and largest of them. */
export function rangeOf(values, limit = Infinity) {
  const step = Math.max(1, Math.floor(values.length / 200000));
  const known = [];
  for (let i = 0; i < values.length; i += step) if (Number.isFinite(values[i]) && values[i] <= limit) known.push(values[i]);
  if (!known.length) return { low: 0, high: 1, least: 0, most: 1 };
  known.sort((a, b) => a - b);
  const at = (share) => known[Math.min(known.length - 1, Math.round(share * (known.length - 1)))];
  const low = at(0.01);
  return { low, high: Math.max(at(0.99), low + 1e-6), least: known[0], most: known[known.length - 1] };
}
