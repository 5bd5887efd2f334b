"""House types and districts: the few patterns of which the town is made, so that its streets resemble each other."""

from __future__ import annotations

from dataclasses import dataclass

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class HouseStyle:
    """One type of house; single houses differ in width, storeys and colours.

    Lengths are metres. `material` and `ground_floor` name painters of `walls` and `facades`.
    """

    name: str
    widths: tuple[float, ...]
    storeys: tuple[int, int]
    storey_height: float
    ground_height: float
    bay: float
    window: tuple[float, float]
    material: str
    roof: str
    ground_floor: str
    walls: tuple[Colour, ...]
    balconies: float = 0.0
    panes: int = 2
    surround: bool = False


@dataclass(frozen=True)
class District:
    """Cross-section of a street and the mixture of what stands along it."""

    name: str
    road: float
    pavement: float
    setback: float
    styles: tuple[str, ...]
    gap: float
    """Space between neighbouring houses; 0 joins them."""
    side_road: float
    park: float
    """Chances, per lot, of a side road and of a park."""
    tree_every: float
    """Mean distance of trees along the kerb; 0 plants none."""
    ground: Colour
    border: str = ""
    """Kind of hedge or fence before the houses."""

    @property
    def edge(self) -> float:
        """Distance from the middle of the road to the outer edge of the pavement."""
        return self.road / 2 + self.pavement


_BRICK = ((142, 78, 58), (158, 98, 74), (120, 66, 54), (168, 120, 92))
_PASTEL = (
    (222, 206, 172), (214, 182, 140), (196, 206, 196), (226, 196, 178), (188, 200, 214), (232, 226, 210),
)  # fmt: skip
_STONE = ((178, 168, 148), (160, 152, 140), (190, 176, 150))
_CONCRETE = ((168, 168, 164), (186, 180, 170), (150, 156, 160))
_WHITE = ((232, 230, 224), (216, 212, 200), (224, 214, 190))

_ALL_STYLES = (
    HouseStyle("terrace", (5.2, 5.8), (2, 2), 2.8, 2.9, 2.6, (1.1, 1.5), "brick", "eaves", "house", _BRICK[:2]),
    HouseStyle(
        "townhouse", (6.5, 7.5), (3, 3), 3.1, 3.3, 2.3, (1.0, 1.8), "brick", "mansard", "steps", _BRICK, 0.0, 3, True
    ),
    HouseStyle("merchant", (7.0, 9.0, 8.0), (3, 4), 3.2, 3.8, 2.4, (1.1, 1.8), "plaster", "gable", "shop", _PASTEL),
    HouseStyle(
        "corner", (11.0, 13.0, 15.0), (4, 5), 3.3, 4.2, 2.7, (1.2, 2.0),
        "stone", "mansard", "shop", _STONE, 0.35, 2, True,
    ),
    HouseStyle("plain", (9.0, 11.0), (3, 4), 2.9, 3.2, 2.6, (1.3, 1.5), "plaster", "eaves", "house", _PASTEL),
    HouseStyle("cottage", (8.0, 9.5), (1, 2), 2.7, 2.8, 2.9, (1.4, 1.3), "plaster", "gable", "garage", _WHITE),
    HouseStyle(
        "villa", (10.0, 12.0), (2, 2), 2.9, 3.0, 2.8, (1.3, 1.5), "brick", "eaves", "house", _BRICK, 0.0, 2, True
    ),
    HouseStyle("slab", (22.0, 28.0), (5, 7), 2.8, 3.0, 3.2, (1.8, 1.4), "panel", "flat", "entrance", _CONCRETE, 0.6, 3),
    HouseStyle("tower", (15.0, 17.0), (8, 10), 2.8, 3.2, 3.0, (1.6, 1.4), "panel", "flat", "entrance", _WHITE, 0.4, 2),
    HouseStyle("office", (16.0, 20.0), (4, 6), 3.5, 4.4, 1.7, (1.6, 2.3), "panel", "flat", "shop", _CONCRETE, 0.0, 1),
    HouseStyle("store", (14.0, 18.0), (2, 3), 3.6, 4.4, 3.0, (2.4, 1.6), "plaster", "flat", "shop", _WHITE, 0.0, 3),
)  # fmt: skip
STYLES = {style.name: style for style in _ALL_STYLES}

_PAVING, _GRASS = (136, 130, 122), (92, 112, 62)
_ALL_DISTRICTS = (
    District("old", 6.0, 2.2, 0.0, ("merchant", "merchant", "plain", "corner"), 0.0, 0.09, 0.03, 0, _PAVING),
    District("terraces", 7.0, 2.0, 1.6, ("terrace",) * 7 + ("plain",), 0.0, 0.05, 0.02, 22, _GRASS, "wall"),
    District(
        "avenue", 9.5, 3.6, 0.0, ("corner", "townhouse", "townhouse", "plain"), 0.0, 0.10, 0.04, 11, _PAVING
    ),
    District("suburb", 6.6, 1.8, 4.5, ("villa", "cottage", "cottage"), 3.2, 0.06, 0.06, 19, _GRASS, "hedge"),
    District("estate", 7.5, 2.5, 5.0, ("slab", "slab", "tower"), 8.0, 0.12, 0.10, 15, _GRASS, "fence"),
    District(
        "centre", 8.5, 3.2, 0.0, ("store", "office", "corner", "merchant"), 0.0, 0.10, 0.05, 28, _PAVING
    ),
)
DISTRICTS = {district.name: district for district in _ALL_DISTRICTS}

SNOW: Colour = (236, 240, 246)
WHITE: Colour = (226, 224, 216)
ROOFS = ((96, 62, 52), (112, 74, 58), (74, 74, 80), (88, 84, 82), (128, 78, 56))
ACCENTS = (
    (152, 40, 38), (38, 70, 120), (40, 92, 66), (196, 150, 48), (84, 50, 92), (40, 44, 50), (186, 92, 40),
)  # fmt: skip
