//! Call sites in a program, with names provided by the caller.
//!
//! A trace has frames as addresses in files; functions and lines come from a caller that has the files. Each address is
//! looked up once. Used by statistics of call sites and by listings of calls.

use std::collections::BTreeMap;

use belljar_trace::{CodeFile, Frame, Site};
use serde::Serialize;

/// Characters of a function's name that the text shows.
const LONGEST_NAME: usize = 48;

/// Most addresses whose names are cached.
const MOST_PLACES: usize = 1 << 16;

/// One frame of a call site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteFrame {
    /// The file that contains the code; `None` for code outside of files.
    pub object: Option<String>,
    /// The file's build ID in hexadecimal digits.
    pub build_id: String,
    /// The return address, relative to the file.
    pub address: u64,
    /// Functions and lines there, the innermost inlined function first; empty if unnamed.
    pub places: Vec<SitePlace>,
}

/// A function, and a line in it; `None` for unknown parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SitePlace {
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

impl SiteFrame {
    /// Converts a frame of the trace.
    pub(crate) fn of(frame: &Frame) -> Self {
        let file = frame.file.as_ref();
        Self {
            object: file.map(|file| file.path.clone()),
            build_id: file.map_or_else(String::new, |file| digits_of(&file.build_id)),
            address: frame.address,
            places: Vec::new(),
        }
    }
}

/// Finds the functions at a return address of a file.
type Find<'f> = dyn FnMut(&CodeFile, u64) -> Vec<SitePlace> + 'f;

/// Names of addresses, each looked up once.
pub struct FrameNames<'f> {
    find: Box<Find<'f>>,
    known: BTreeMap<(String, u64), Vec<SitePlace>>,
}

impl<'f> FrameNames<'f> {
    /// Creates names from `find`, which takes a file and a return address.
    pub fn new(find: impl FnMut(&CodeFile, u64) -> Vec<SitePlace> + 'f) -> Self {
        Self {
            find: Box::new(find),
            known: BTreeMap::new(),
        }
    }

    /// Names the functions of a frame, if it is in a file.
    pub(crate) fn name(&mut self, frame: &mut SiteFrame) {
        let Some(path) = &frame.object else {
            return;
        };
        if self.known.len() >= MOST_PLACES {
            self.known.clear();
        }
        let places = self.known.entry((path.clone(), frame.address));
        let places = places.or_insert_with(|| {
            let file = CodeFile {
                path: path.clone(),
                build_id: bytes_of(&frame.build_id),
            };
            (self.find)(&file, frame.address)
        });
        frame.places.clone_from(places);
    }

    /// Returns the frames of a call, named; empty if the trace has no call site.
    pub(crate) fn frames(&mut self, site: &Site) -> Vec<SiteFrame> {
        let frames = site.0.as_ref().map_or(&[][..], |stack| &stack.0);
        let mut frames: Vec<SiteFrame> = frames.iter().map(SiteFrame::of).collect();
        frames.iter_mut().for_each(|frame| self.name(frame));
        frames
    }
}

/// Formats a frame: a line for each function that is inlined there.
pub(crate) fn lines(frame: &SiteFrame) -> Vec<String> {
    let named = frame.places.iter().any(|place| place.function.is_some());
    if !named {
        return vec![unnamed(frame)];
    }
    let last = frame.places.len() - 1;
    let places = frame.places.iter().enumerate();
    let line = |(index, place): (usize, &SitePlace)| {
        let inlined = if index < last { ", inlined" } else { "" };
        let function = short(place.function.as_deref().unwrap_or("?"));
        match at(place, frame) {
            Some(at) => format!("{function} ({at}){inlined}"),
            None => format!("{function}{inlined}"),
        }
    };
    places.map(line).collect()
}

/// Formats the line of a function, or else its file.
fn at(place: &SitePlace, frame: &SiteFrame) -> Option<String> {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => Some(format!("{}:{line}", base(file))),
        (Some(file), None) => Some(base(file).to_owned()),
        (None, _) => frame
            .object
            .as_deref()
            .map(|object| base(object).to_owned()),
    }
}

fn unnamed(frame: &SiteFrame) -> String {
    match &frame.object {
        Some(object) => format!("{}+{:#x}", base(object), frame.address),
        None => format!("{:#x}", frame.address),
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((at, _)) => format!("{}...", &name[..at]),
        None => name.to_owned(),
    }
}

fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let pairs = pairs.filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs
        .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
        .collect()
}
