//! A flame graph as SVG, after Brendan Gregg.
//!
//! A box is drawn above its caller's, as wide as its share of samples; names are in alphabetical order. The picture depends
//! only on the profile. Used by `table`.

use std::io::{self, Write};
use std::sync::Arc;

use belljar_sim::figures::counted;

use crate::tally::Named;

/// Width of the picture, in pixels.
const WIDTH: f64 = 1200.0;
/// Height of a row.
const ROW: usize = 18;
/// Narrower boxes are omitted.
const LEAST: f64 = 0.1;
/// Approximate width of a letter, in pixels.
const LETTER: f64 = 7.0;

/// A box: consecutive stacks with the same frames up to this one.
struct Flame<'n> {
    name: &'n str,
    depth: usize,
    /// Samples to the left of it, and samples in it.
    before: u64,
    count: u64,
}

/// Writes the picture.
pub(crate) fn write(profile: &Named, out: &mut dyn Write) -> io::Result<()> {
    let all = profile.samples();
    let deepest = profile.stacks.keys().map(Vec::len).max().unwrap_or(0);
    let height = (deepest + 2) * ROW;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">"
    )?;
    let root = Flame {
        name: "all",
        depth: 0,
        before: 0,
        count: all,
    };
    show(&root, all, height, out)?;
    let stacks: Vec<(&Vec<Arc<str>>, u64)> = profile
        .stacks
        .iter()
        .map(|(stack, count)| (stack, *count))
        .collect();
    for depth in 0..deepest {
        for flame in flames(&stacks, depth) {
            show(&flame, all, height, out)?;
        }
    }
    writeln!(out, "</svg>")
}

/// Returns the boxes of one row.
fn flames<'n>(stacks: &[(&'n Vec<Arc<str>>, u64)], depth: usize) -> Vec<Flame<'n>> {
    let mut flames: Vec<Flame<'n>> = Vec::new();
    let mut last: Option<&[Arc<str>]> = None;
    let mut before = 0;
    for (stack, count) in stacks {
        let upto = stack.get(..=depth);
        match (flames.last_mut(), upto) {
            (Some(flame), Some(_)) if upto == last => {
                flame.count = flame.count.saturating_add(*count);
            }
            (_, Some(frames)) => flames.push(Flame {
                name: &frames[depth],
                depth: depth + 1,
                before,
                count: *count,
            }),
            (_, None) => {}
        }
        last = upto;
        before = before.saturating_add(*count);
    }
    flames
}

fn show(flame: &Flame<'_>, all: u64, height: usize, out: &mut dyn Write) -> io::Result<()> {
    let scale = WIDTH / all.max(1) as f64;
    let (x, width) = (flame.before as f64 * scale, flame.count as f64 * scale);
    if width < LEAST {
        return Ok(());
    }
    let y = height - (flame.depth + 2) * ROW + ROW / 2;
    let share = crate::table::share(flame.count, all);
    let name = escaped(flame.name);
    let hash = crc32fast::hash(flame.name.as_bytes());
    let (red, green, blue) = (205 + hash % 50, 80 + (hash >> 8) % 130, (hash >> 16) % 55);
    write!(
        out,
        "<g><title>{name} ({}, {share})</title>\
         <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" rx=\"2\" fill=\"rgb({red},{green},{blue})\"/>",
        counted(flame.count, "sample"),
        ROW - 1
    )?;
    let room = (width / LETTER) as usize;
    if room > 2 {
        let shown: String = flame.name.chars().take(room - 1).collect();
        let (x, y) = (x + 3.0, y + ROW - 6);
        write!(
            out,
            "<text x=\"{x:.2}\" y=\"{y}\">{}</text>",
            escaped(&shown)
        )?;
    }
    writeln!(out, "</g>")
}

/// Escapes a text for XML.
fn escaped(words: &str) -> String {
    let mut text = String::new();
    for letter in words.chars() {
        match letter {
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '&' => text.push_str("&amp;"),
            '"' => text.push_str("&quot;"),
            letter if letter.is_control() => text.push('_'),
            letter => text.push(letter),
        }
    }
    text
}
