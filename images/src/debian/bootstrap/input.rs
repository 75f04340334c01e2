//! Input of the chroot: the hook, the recipe's files and trees, source packages, and the build script.
//! Names in the script were checked when the recipe was read. A user's own commands are in files of their
//! own.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::dropped;
use crate::debian::fetch::Fetched;
use crate::recipe::tree::{Tree, TreeEntryKind};
use crate::recipe::{Recipe, RecipeProgram, RecipeSource};

/// The hook's text; `$1` is the chroot.
const HOOK: &str = include_str!("../bootstrap.sh");

/// Folder of the chroot for compiled files, each under its path in the guest.
pub(crate) const OUTPUT: &str = "/belljar/out";

/// Folder of the chroot for all input.
const INPUT: &str = "belljar/in";

/// Folder of the chroot into which the source tree with this number installs.
pub(crate) fn output_folder(source: usize) -> String {
    format!("/belljar/trees/{source}")
}

/// Folder of a layer's files. Recipes that extend none keep the original path.
fn files(layer: usize) -> String {
    match layer {
        0 => "files".to_owned(),
        layer => format!("files.{layer}"),
    }
}

/// Writes the input as a tar archive to `path`.
pub(super) fn write(recipe: &Recipe, fetched: &Fetched, path: &Path) -> io::Result<()> {
    let spec = recipe.spec();
    let mut archive = InputArchive(Builder::new(File::create(path)?));
    archive.text("bootstrap.sh", HOOK)?;
    archive.text("build.sh", &build_script(recipe))?;
    archive.text("dropped", &lines(dropped(spec)))?;
    archive.text("whole", &lines(&spec.userland.whole))?;
    archive.text("sources", &lines(recipe.source_packages()))?;
    for (layer, name, bytes) in recipe.files() {
        let name = format!("{}/{name}", files(layer));
        archive.file(&name, 0o644, bytes.len() as u64, bytes)?;
    }
    for (package, paths) in &fetched.sources {
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            archive.file(&format!("src/{package}/{name}"), 0o644, size, file)?;
        }
    }
    for (number, source) in spec.source.iter().enumerate() {
        let tree = source.path.as_deref();
        if let Some(tree) = tree.and_then(|name| recipe.tree(source.layer, name)) {
            archive.text(&format!("tree-{number}.sh"), &source.script)?;
            archive.tree(&format!("trees/{number}"), tree)?;
        }
    }
    archive.0.into_inner()?.sync_all()
}

fn lines<I: IntoIterator<Item: AsRef<str>>>(words: I) -> String {
    let words = words.into_iter();
    words.map(|word| format!("{}\n", word.as_ref())).collect()
}

struct InputArchive(Builder<File>);

impl InputArchive {
    fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.file(name, 0o644, text.len() as u64, text.as_bytes())
    }

    fn file(&mut self, name: &str, mode: u32, size: u64, bytes: impl Read) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(size);
        header.set_mode(mode);
        // At most the announced size: a file may grow meanwhile.
        self.0
            .append_data(&mut header, format!("{INPUT}/{name}"), bytes.take(size))
    }

    fn tree(&mut self, at: &str, tree: &Tree) -> io::Result<()> {
        self.folder(at)?;
        for entry in tree.entries() {
            let name = format!("{at}/{}", entry.path);
            match &entry.kind {
                TreeEntryKind::Folder => self.folder(&name)?,
                TreeEntryKind::Link(target) => {
                    let mut header = Header::new_gnu();
                    header.set_entry_type(EntryType::Symlink);
                    header.set_size(0);
                    header.set_mode(0o777);
                    let name = format!("{INPUT}/{name}");
                    self.0.append_link(&mut header, name, target)?;
                }
                TreeEntryKind::File { size, executable } => {
                    let mode = if *executable { 0o755 } else { 0o644 };
                    let file = File::open(tree.host_path(entry))?;
                    self.file(&name, mode, *size, file)?;
                }
            }
        }
        Ok(())
    }

    fn folder(&mut self, name: &str) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_size(0);
        header.set_mode(0o755);
        self.0
            .append_data(&mut header, format!("{INPUT}/{name}/"), io::empty())
    }
}

/// The script that compiles inside the chroot.
fn build_script(recipe: &Recipe) -> String {
    let mut script = String::from("export LC_ALL=C SOURCE_DATE_EPOCH=0\n");
    for program in &recipe.spec().program {
        compile(&mut script, program);
    }
    for (number, source) in recipe.spec().source.iter().enumerate() {
        match source.path {
            None => build_package(&mut script, source),
            Some(_) => build_tree(&mut script, number, source),
        }
    }
    script
}

fn compile(script: &mut String, program: &RecipeProgram) {
    let RecipeProgram {
        source,
        path,
        compiler,
        flags,
        libraries,
        layer,
        into: _,
    } = program;
    let quoted = |words: &[String]| {
        words
            .iter()
            .map(|word| format!(" '{word}'"))
            .collect::<String>()
    };
    let (flags, libraries) = (quoted(flags), quoted(libraries));
    let folder = path.rfind('/').map_or("", |end| &path[..end]);
    let _ = writeln!(
        script,
        "echo 'compiling {source}' >&2; mkdir -p '{OUTPUT}{folder}'"
    );
    // From the folder of the inputs, so that no path of the chroot reaches the binary.
    let files = files(*layer);
    let _ = writeln!(
        script,
        "(cd /belljar/in/{files} && {compiler}{flags} -o '{OUTPUT}{path}' '{source}'{libraries} && strip '{OUTPUT}{path}')"
    );
}

/// End of a script's command, which sends output to the build's log and prints the log's end on failure.
const LOG: &str = ">/belljar/build.log 2>&1) || { tail -n 40 /belljar/build.log >&2; exit 1; }";

fn build_package(script: &mut String, source: &RecipeSource) {
    let RecipeSource {
        package,
        script: build,
        outputs,
        layer,
        ..
    } = source;
    let _ = writeln!(script, "echo 'building source package {package}' >&2");
    for output in outputs {
        let folder = output.rfind('/').map_or("", |end| &output[..end]);
        let _ = writeln!(script, "mkdir -p '{OUTPUT}{folder}'");
    }
    let files = files(*layer);
    let _ = writeln!(
        script,
        "(cd '/belljar/src/{package}' && mkdir tree && tar -xf *.orig.tar.* -C tree --strip-components=1 && cd tree && \
         FILES=/belljar/in/{files} DESTDIR={OUTPUT} sh -eu '/belljar/in/{files}/{build}' {LOG}"
    );
}

fn build_tree(script: &mut String, number: usize, source: &RecipeSource) {
    let out = output_folder(number);
    let files = files(source.layer);
    let _ = writeln!(
        script,
        "echo 'building source tree {number}' >&2; mkdir -p '{out}'\n\
         (cd '/belljar/in/trees/{number}' && FILES=/belljar/in/{files} OUT={out} \
         sh -eu '/belljar/in/tree-{number}.sh' {LOG}"
    );
}
