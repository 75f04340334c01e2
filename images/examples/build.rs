//! Builds the image of a recipe and prints where it lies: `cargo run -p belljar-images --example build RECIPE`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;

use belljar_images::{Progress, Recipe, build};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a recipe")?;
    let recipe = Recipe::load(Path::new(&path))?;
    let image = build(&recipe, &mut |progress| match progress {
        Progress::Step { number, of, what } => eprintln!("[{number}/{of}] {what}"),
        Progress::Detail(line) => eprintln!("      {line}"),
        Progress::Waiting => eprintln!("another build of this image is under way: waiting for it"),
        Progress::Note(note) => eprintln!("note: {note}"),
    })?;
    println!("{}", image.dir.display());
    Ok(())
}
