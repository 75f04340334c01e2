//! A matrix as an image: an SVG with a square for each pair, darker for more bytes.
//!
//! Shades are logarithmic, as bytes of pairs differ by orders of magnitude. With too many ranks for visible squares, adjacent ranks share
//! a square. Numbers are integers, so the image is the same on every host. Used by `belljar trace matrix --svg`.

use std::collections::BTreeMap;
use std::io;

use super::Matrix;
use super::render::Side;
use crate::table::{bytes, count};

/// Most squares in a row.
const MOST_SQUARES: usize = 256;
/// Approximate width of all squares together.
const WIDTH: usize = 640;
/// Space for names and titles at the left and the top.
const LEFT: usize = 64;
const TOP: usize = 56;
/// Most names along an axis.
const MOST_NAMES: usize = 16;
/// Number of shades.
const SHADES: u64 = 4096;

impl Matrix {
    /// Writes the matrix as an SVG.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_svg(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let sides = self.sides();
        let share = sides.len().div_ceil(MOST_SQUARES).max(1);
        let squares = sides.len().div_ceil(share).max(1);
        let size = (WIDTH / squares).max(2);
        let (width, height) = (LEFT + squares * size + 16, TOP + squares * size + 40);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\">"
        )?;
        writeln!(
            out,
            "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
        )?;
        writeln!(out, "<text x=\"8\" y=\"16\">{}</text>", self.sum())?;
        let edge = squares * size;
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{edge}\" height=\"{edge}\" fill=\"none\" \
             stroke=\"#999\"/>"
        )?;
        self.write_names(&sides, share, size, out)?;
        let cells = self.cells(&sides, share);
        let most = cells.values().map(|cell| cell.1).max().unwrap_or(0);
        for ((row, column), (messages, sum)) in &cells {
            let (x, y) = (LEFT + column * size, TOP + row * size);
            let [from, to] = [row, column].map(|at| self.name(sides[at * share]));
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{size}\" height=\"{size}\" fill=\"{}\">\
                 <title>{from} to {to}: {} in {}</title></rect>",
                colour(*sum, most),
                bytes(*sum),
                count(*messages)
            )?;
        }
        let y = TOP + edge + 20;
        writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{y}\">{} from row to column; the darkest square has {}, shades are \
             logarithmic</text>",
            self.unit(),
            bytes(most)
        )?;
        writeln!(out, "</svg>")
    }

    /// Returns messages and bytes by row and column of squares.
    fn cells(&self, sides: &[Side], share: usize) -> BTreeMap<(usize, usize), (u64, u64)> {
        let mut cells = BTreeMap::new();
        for pair in &self.pairs {
            let at = |side: Side| sides.binary_search(&side).ok().map(|at| at / share);
            let Some(place) = at(pair.sender()).zip(at(pair.receiver())) else {
                continue;
            };
            let (messages, sum): &mut (u64, u64) = cells.entry(place).or_default();
            *messages = messages.saturating_add(pair.messages);
            *sum = sum.saturating_add(pair.bytes);
        }
        cells
    }

    fn write_names(
        &self,
        sides: &[Side],
        share: usize,
        size: usize,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let squares = sides.len().div_ceil(share);
        let step = squares.div_ceil(MOST_NAMES).max(1);
        for square in (0..squares).step_by(step) {
            let name = self.name(sides[square * share]);
            let middle = square * size + size / 2;
            let (x, y) = (LEFT - 6, TOP + middle + 4);
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>"
            )?;
            let (x, y) = (LEFT + middle, TOP - 6);
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{name}</text>"
            )?;
        }
        Ok(())
    }
}

/// Returns a colour from light to dark by the logarithm of bytes, in integers.
fn colour(bytes: u64, most: u64) -> String {
    // In 16ths of a binary order of magnitude, the lower bits linear within it.
    let magnitude = |value: u64| match value {
        0 => 0,
        value => {
            let order = value.ilog2();
            let within = ((u128::from(value) << 4) >> order) as u64 - 16;
            u64::from(order) * 16 + within + 1
        }
    };
    let shade = (magnitude(bytes) * SHADES)
        .checked_div(magnitude(most))
        .unwrap_or(0);
    // A square with little traffic remains distinguishable from an empty one.
    let shade = match bytes {
        0 => 0,
        _ => SHADES / 8 + shade * 7 / 8,
    };
    let mix = |light: u64, dark: u64| light - (light - dark) * shade / SHADES;
    let (red, green, blue) = (mix(232, 8), mix(240, 48), mix(250, 107));
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bytes_are_darker() {
        let shades = [0, 1, 10, 1000, 1 << 40].map(|bytes| colour(bytes, 1 << 40));
        assert!(
            shades.is_sorted_by(|light, dark| light > dark),
            "{shades:?}"
        );
        assert_eq!(colour(u64::MAX, u64::MAX), "#08306b");
        assert_eq!(colour(0, 0), "#e8f0fa");
    }
}
