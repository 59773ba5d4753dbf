"""`pyhybrid ranks --page`: the verdict, and a cell for each rank and step."""

from __future__ import annotations

from pathlib import Path

import pytest
from many_ranks import N_STEPS, rank_rows, save
from page_support import Browser
from support import printed

pytestmark = [pytest.mark.needs("viewers", "chromium", "ranks"), pytest.mark.once]

MS = 1_000_000
HOST = "<img src=x onerror=alert(1)>"


def test_cells_of_ranks_and_steps(tmp_path: Path, browse: Browser) -> None:
    ranks = [rank_rows(r, 6, 12 * MS * (r == 3), host=HOST if r == 3 else "b") for r in range(6)]
    save(tmp_path / "a.ranks", ranks)
    printed(tmp_path, "ranks", "--page", "ranks.html", "a.ranks")
    steps = f"""
        const text = await page.locator('pre').textContent();
        const box = await page.locator('canvas').boundingBox();
        const wide = (box.width - 64) / {N_STEPS}, tall = box.height / 6;
        const told = [];
        for (const [rank, step] of [[0, 5], [1, 0], [5, {N_STEPS - 1}]]) {{
            await page.mouse.move(box.x + 64 + (step + 0.5) * wide, box.y + (rank + 0.5) * tall);
            told.push(await page.locator('.muted').first().textContent());
        }}
        await page.locator('select').first().selectOption({{label: 'waits for other ranks'}});
        await page.mouse.move(box.x + 64 + 5.5 * wide, box.y + 0.5 * tall);
        told.push(await page.locator('.muted').first().textContent());
        return {{text, told, violations: await axe()}};
    """
    done = browse(tmp_path / "ranks.html", steps)
    assert done["violations"] == []
    assert f"slow     rank 3 (pid 103 on {HOST})" in done["text"]
    slow, usual, last, waits = done["told"]
    assert slow.startswith(f"rank 3 on {HOST}, step 5: own, without waits for other ranks ")
    assert " on b, step 0: own, " in usual
    assert f" on b, step {N_STEPS - 1}: " in last
    assert f"rank 3 on {HOST}, step 5: waits for other ranks " in waits
