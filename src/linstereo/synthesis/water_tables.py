"""Published optical coefficients of Jerlov's water types, in 1/m, by wavelength.

Sources, by column:

* diffuse attenuation K_d: N. G. Jerlov, *Marine Optics*, Elsevier 1976, table XXVII, p. 135;
* absorption a and scattering b of I and IA: M. G. Solonenko and C. D. Mobley, *Inherent optical properties of Jerlov
  water types*, Applied Optics 54, 5392 (2015), tables 4 to 8;
* a and b of IB, II, III, 1C and 3C: C. A. Williamson and R. C. Hollins, *Measured IOPs of Jerlov water types*, Applied
  Optics 61, 9951 (2022), table 7: fitted to measurements all over the world.

The two sources of a and b are not mixed for choice: Williamson and Hollins have no I and IA (too few measurements), and
what Solonenko and Mobley inferred from K_d alone for III scatters more than for 1C, against the order of the types.
"""

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

WAVELENGTHS = (450.0, 475.0, 500.0, 525.0, 550.0, 575.0, 600.0, 625.0, 650.0)
"""nm, for all the tables below."""

CHANNEL_WAVELENGTHS = (600.0, 535.0, 460.0)
"""nm, where the red, green and blue of a usual camera see most."""


class Spectrum(NamedTuple):
    """Coefficients of one type of water at `WAVELENGTHS`, in 1/m."""

    diffuse: tuple[float, ...]
    absorption: tuple[float, ...]
    scattering: tuple[float, ...]


SPECTRA = MappingProxyType(
    {
        "I": Spectrum(
            diffuse=(0.019, 0.018, 0.027, 0.043, 0.063, 0.089, 0.235, 0.305, 0.360),
            absorption=(0.018, 0.019, 0.026, 0.046, 0.062, 0.082, 0.228, 0.295, 0.334),
            scattering=(0.00381, 0.00306, 0.00249, 0.00205, 0.0017, 0.00143, 0.00122, 0.00104, 0.000899),
        ),
        "IA": Spectrum(
            diffuse=(0.026, 0.025, 0.032, 0.048, 0.067, 0.094, 0.240, 0.310, 0.370),
            absorption=(0.0221, 0.0216, 0.0282, 0.0468, 0.0622, 0.0821, 0.228, 0.295, 0.334),
            scattering=(0.00631, 0.00536, 0.00461, 0.00402, 0.00354, 0.00315, 0.00283, 0.00256, 0.00234),
        ),
        "IB": Spectrum(
            diffuse=(0.036, 0.033, 0.042, 0.054, 0.072, 0.099, 0.245, 0.315, 0.375),
            absorption=(0.0407, 0.0372, 0.0398, 0.0516, 0.0655, 0.0888, 0.227, 0.291, 0.335),
            scattering=(0.135, 0.131, 0.128, 0.125, 0.122, 0.120, 0.118, 0.116, 0.114),
        ),
        "II": Spectrum(
            diffuse=(0.068, 0.062, 0.070, 0.076, 0.089, 0.115, 0.260, 0.335, 0.400),
            absorption=(0.0623, 0.0544, 0.0529, 0.0609, 0.0724, 0.0941, 0.231, 0.295, 0.338),
            scattering=(0.195, 0.190, 0.185, 0.181, 0.177, 0.173, 0.170, 0.167, 0.164),
        ),
        "III": Spectrum(
            diffuse=(0.135, 0.116, 0.115, 0.116, 0.120, 0.148, 0.295, 0.375, 0.445),
            absorption=(0.112, 0.0941, 0.0835, 0.0821, 0.0878, 0.105, 0.241, 0.307, 0.351),
            scattering=(0.309, 0.303, 0.297, 0.292, 0.287, 0.282, 0.278, 0.274, 0.271),
        ),
        "1C": Spectrum(
            diffuse=(0.25, 0.17, 0.14, 0.13, 0.12, 0.15, 0.30, 0.37, 0.45),
            absorption=(0.148, 0.121, 0.104, 0.0972, 0.0988, 0.113, 0.248, 0.314, 0.359),
            scattering=(0.455, 0.447, 0.440, 0.433, 0.427, 0.421, 0.416, 0.410, 0.405),
        ),
        "3C": Spectrum(
            diffuse=(0.39, 0.29, 0.22, 0.20, 0.19, 0.21, 0.33, 0.40, 0.46),
            absorption=(0.200, 0.166, 0.144, 0.132, 0.128, 0.136, 0.268, 0.335, 0.379),
            scattering=(0.686, 0.675, 0.664, 0.654, 0.644, 0.636, 0.627, 0.620, 0.612),
        ),
    }
)
"""By type, from clear to turbid."""


def at_channels(values: tuple[float, ...]) -> tuple[float, float, float]:
    """Coefficients at `WAVELENGTHS`, interpolated linearly to red, green and blue."""
    red, green, blue = np.interp(CHANNEL_WAVELENGTHS, WAVELENGTHS, values)
    return float(red), float(green), float(blue)


def pure_water_scattering() -> tuple[float, float, float]:
    """Scattering of the water itself at red, green and blue: V. I. Haltrin, Applied Optics 38, 6826 (1999), eq. 5."""
    red, green, blue = 0.005826 * (400.0 / np.array(CHANNEL_WAVELENGTHS)) ** 4.322
    return float(red), float(green), float(blue)
