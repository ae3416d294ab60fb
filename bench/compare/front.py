"""Who is ahead of whom in a plane: x should be small, and y large."""

# So much better in one measure, and no worse in the other, is ahead.
AHEAD = 1.2


def is_ahead(one, other):
    """True if a point is ahead of another; points are (small is good, large is good)."""
    is_no_worse = one[0] <= other[0] and one[1] >= other[1]
    return is_no_worse and (one[0] * AHEAD <= other[0] or one[1] >= other[1] * AHEAD)


def points(figure, found, size):
    """The points of the engines that have one, by engine."""
    known = {one: (found.median(size, one, figure.x), found.median(size, one, figure.y))
             for one in found.engines()}
    return {one: (x, y) for one, (x, y) in known.items() if x and y is not None}


def beaten_by(figure, found, size):
    """For each engine with a point, those of ours that are ahead of it, the one with most first."""
    known = points(figure, found, size)
    ours = [one for one in known if one.ours]
    return {
        one: sorted(
            (mine for mine in ours if is_ahead(known[mine], point)),
            key=lambda mine: -known[mine][1],
        )
        for one, point in known.items()
    }


def told(figure, found, name_of):
    """A line for each engine and size: which of our modes is ahead of it, if one is."""
    lines = []
    for size in found.sizes():
        known = points(figure, found, size)
        lines += [f"- {name_of(size)}, {one.title}: no figure ({found.missing(size, one)})"
                  for one in found.engines() if one not in known]
        for one, ahead in beaten_by(figure, found, size).items():
            head = f"- {name_of(size)}, {one.title}: "
            if ahead:
                mine, its = known[ahead[0]], known[one]
                less, more = mine[0] / its[0], mine[1] / its[1] if its[1] else float("inf")
                lines.append(f"{head}{ahead[0].title} is ahead, {less:.3g} · {more:.3g}")
            else:
                lines.append(head + ("on our front" if one.ours else "**nobody of ours is ahead**"))
    return "\n".join(lines)
