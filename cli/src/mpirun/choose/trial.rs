//! One image, tried with the programs of a request.
//!
//! Nothing is run: programs are compared with the files of the image. Called by `choose` for each image; `choose` keeps
//! the best one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{ChoiceError, LaunchedProgram, ProgramOrigin, name_in_guest};
use crate::mpirun::request::ProgramRequest;
use belljar_workload::check::{can_start, describe, fits, missing};
use belljar_workload::guest_root::interpreter_line;
use belljar_workload::host_loader::read_binary;
use belljar_workload::library::{Closure, LibraryLocation, Object, bring};
use belljar_workload::{Binary, GuestRoot, HostLoader, Mpi, ProgramError};

/// Largest script whose text is read, in bytes.
const SCRIPT: u64 = 1 << 20;

/// An image on trial.
pub(super) struct Trial<'a> {
    root: &'a GuestRoot,
    image: &'a str,
    host: &'a HostLoader,
    /// Libraries of this host that programs bring.
    pub(super) libraries: BTreeMap<String, PathBuf>,
    /// The programs in words.
    pub(super) lines: Vec<String>,
    /// The choice between two programs of one name.
    pub(super) notices: Vec<String>,
    /// Libraries that are not those of this host.
    pub(super) warnings: Vec<String>,
    /// Modules that scripts import and the image lacks.
    pub(super) lacking: usize,
    /// The MPIs that they are linked to.
    mpi: Vec<Mpi>,
}

impl<'a> Trial<'a> {
    /// The image `image` with the tree `root`, with nothing tried yet.
    pub(super) fn new(root: &'a GuestRoot, image: &'a str, host: &'a HostLoader) -> Self {
        Self {
            root,
            image,
            host,
            libraries: BTreeMap::new(),
            lines: Vec::new(),
            notices: Vec::new(),
            warnings: Vec::new(),
            lacking: 0,
            mpi: Vec::new(),
        }
    }
}

impl Trial<'_> {
    /// Finds the program of `part` and its libraries.
    ///
    /// # Errors
    /// The reason why it cannot run on the image.
    pub(super) fn program(
        &mut self,
        part: &ProgramRequest,
    ) -> Result<LaunchedProgram, ChoiceError> {
        let word = &part.program;
        let path = part.path_here(word);
        let is_bare = !word.contains('/');
        let of_image = match Path::new(word).is_absolute() || is_bare {
            true => self.root.program(word),
            false => None,
        };
        if let Some(real) = of_image.filter(|_| !is_bare || !is_program(&path)) {
            // In folders of users' own programs, two files of one path rarely are the same program.
            let is_own = !is_bare
                && ["/bin/", "/usr/", "/sbin/"]
                    .iter()
                    .all(|start| !word.starts_with(start));
            if is_own && path.is_file() {
                self.notices.push(format!(
                    "{word} is the image's file; this machine's {word} is not used"
                ));
            }
            self.image_program(&real, part);
            return Ok(LaunchedProgram {
                source: ProgramOrigin::Image,
                name: word.clone(),
            });
        }
        if is_bare && !path.is_file() {
            return self.by_another_name(part);
        }
        if !path.is_file() {
            return Err(ChoiceError::NoSuch(path.display().to_string()));
        }
        if is_bare {
            let instead = match self.root.program(word) {
                Some(real) => format!(", and not the image's {real}"),
                None => String::new(),
            };
            let shown = Path::new(".").join(&path);
            self.notices.push(format!(
                "{word} is {}, the file in this folder{instead}",
                shown.display()
            ));
        }
        let name = name_in_guest(&path);
        match read_binary(&path) {
            Some(binary) => self.bring(&name, &path, binary)?,
            None => self.script(&name, &path)?,
        }
        Ok(LaunchedProgram {
            source: ProgramOrigin::Host(path),
            name,
        })
    }

    /// A program that neither the image nor this folder has by its name: Debian has `python3` alone.
    fn by_another_name(&mut self, part: &ProgramRequest) -> Result<LaunchedProgram, ChoiceError> {
        let word = &part.program;
        let real = self.root.program("python3").filter(|_| word == "python");
        let Some(real) = real else {
            let image = format!(" {}", self.image);
            return Err(ChoiceError::Unknown(word.clone(), image));
        };
        self.notices
            .push("python is python3 on nodes, which have no python".to_owned());
        self.image_program(&real, part);
        Ok(LaunchedProgram {
            source: ProgramOrigin::Image,
            name: "python3".to_owned(),
        })
    }

    /// Takes in a further file: a program among them brings its libraries, too.
    pub(super) fn file(&mut self, name: &str, path: &Path) -> Result<(), ChoiceError> {
        match read_binary(path) {
            Some(binary) if binary.is_for_nodes() && binary.interpreter.is_some() => {
                self.bring(name, path, binary)
            }
            _ => Ok(()),
        }
    }

    fn bring(&mut self, name: &str, path: &Path, binary: Binary) -> Result<(), ChoiceError> {
        can_start(self.root, name, &binary, self.image)?;
        if !binary.is_loadable {
            return Err(ChoiceError::NoProgram(path.to_owned()));
        }
        if binary.is_static_program() {
            self.mpi.extend(static_mpi(path));
            self.lines.push(format!("{name}, static"));
            return Ok(());
        }
        let full = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = full.parent().unwrap_or(Path::new("/"));
        let program = Object::new(name, folder, binary);
        // By this host's libraries: the image may not have those between the program and MPI.
        let here = Closure::of(program.clone(), &mut |object, library| {
            self.host.find(object, library)
        });
        self.compare(name, &here);
        let mut closure = bring(self.root, self.host, program);
        for (&mpi, library) in &here.mpi {
            closure.mpi.entry(mpi).or_insert_with(|| library.clone());
        }
        fits(self.root, name, &closure, self.image).map_err(|error| at_home(error, &here))?;
        if !closure.missing.is_empty() {
            let advice = "install them here, or set LD_LIBRARY_PATH to their folders";
            return Err(missing(name, &closure, self.image, "this host", advice).into());
        }
        self.lines.push(describe(name, &closure));
        self.mpi.extend(closure.mpi.keys());
        self.libraries.extend(closure.open);
        Ok(())
    }

    /// Warns of MPI libraries from a program's own folder, such as a package of Python, Conda or Spack: nodes use the
    /// image's libraries instead.
    fn compare(&mut self, name: &str, here: &Closure) {
        for (library, path) in &here.open {
            let of_system = self.host.system(library).map(|(path, _)| path);
            let of_image = self.root.library(library);
            if let (Some(_), Some(of_image)) = (Mpi::of_library(library), of_image)
                && of_system.as_ref() != Some(path)
            {
                self.warnings.push(format!(
                    "{name} loads {} here; on nodes it has {of_image} of the image {}",
                    path.display(),
                    self.image
                ));
            }
        }
    }

    fn script(&mut self, name: &str, path: &Path) -> Result<(), ChoiceError> {
        let words = read_start(path).and_then(|text| interpreter_line(&text));
        let Some(words) = words else {
            return Err(ChoiceError::NoProgram(path.to_owned()));
        };
        let absent = |interpreter: &str| ProgramError::Interpreter {
            program: name.to_owned(),
            interpreter: interpreter.to_owned(),
            image: self.image.to_owned(),
            advice: "take an image that has it, or add its package to the recipe",
        };
        if self.root.real(&words[0]).is_none() {
            return Err(absent(&words[0]).into());
        }
        if let (true, Some(by_name)) = (words[0].ends_with("/env"), words.get(1))
            && self.root.program(by_name).is_none()
        {
            return Err(absent(by_name).into());
        }
        self.python_mpi(path);
        self.lines
            .push(format!("{name}, a script for {}", words.join(" ")));
        Ok(())
    }

    /// A program of the image, at the path `real`.
    fn image_program(&mut self, real: &str, part: &ProgramRequest) {
        if let Some(binary) = self.root.binary(real) {
            let program = Object::new(&part.program, Path::new("/"), binary);
            self.mpi.extend(self.mpi_in_image(program));
        }
        if let Some(script) = part.arguments.iter().find(|word| !word.starts_with('-')) {
            self.python_mpi(&part.path_here(script));
        }
        self.lines
            .push(format!("{}, of the image ({real})", part.program));
    }

    fn mpi_in_image(&self, program: Object) -> Vec<Mpi> {
        let closure = Closure::of(program, &mut |_, name| {
            let path = self.root.library(name)?;
            let binary = self.root.binary(&path)?;
            let found = Object::new(name, Path::new("/"), binary);
            Some(LibraryLocation::Open(PathBuf::from(path), found))
        });
        closure.mpi.into_keys().collect()
    }

    /// For a script at `path` that uses mpi4py: the MPI that the image's is linked to.
    fn python_mpi(&mut self, path: &Path) {
        let uses_it = |text: Vec<u8>| text.windows(6).any(|word| word == b"mpi4py");
        if !read_start(path).is_some_and(uses_it) {
            return;
        }
        let module = self.root.with_part("/mpi4py/MPI.").next();
        let binary = module.and_then(|path| self.root.binary(path));
        match binary {
            Some(binary) => {
                let module = Object::new("mpi4py", Path::new("/"), binary);
                self.mpi.extend(self.mpi_in_image(module));
            }
            None => {
                self.lacking += 1;
                self.warnings.push(format!(
                    "{} imports mpi4py, which the image {} lacks",
                    path.display(),
                    self.image
                ));
            }
        }
    }

    /// The MPI that all are linked to. If none is linked to MPI, one of the image's.
    pub(super) fn launched_by(&self) -> Result<Mpi, ChoiceError> {
        let mut all = self.mpi.clone();
        all.sort();
        all.dedup();
        match all[..] {
            [mpi] => Ok(mpi),
            [] => {
                let has = Mpi::ALL.into_iter().find(|mpi| self.root.has(*mpi));
                has.ok_or_else(|| ChoiceError::NoMpi(self.image.to_owned()))
            }
            _ => Err(ChoiceError::Several),
        }
    }
}

/// An error about a program's MPI, with the library that it has on this host.
fn at_home(mut error: ProgramError, here: &Closure) -> ProgramError {
    if let ProgramError::Mpi {
        library,
        has_instead,
        ..
    } = &mut error
        && let Some(path) = here.open.get(library)
    {
        has_instead.push_str(&format!(" (here it loads {})", path.display()));
    }
    error
}

/// True if a file can be executed directly.
fn is_program(path: &Path) -> bool {
    let data = fs::metadata(path);
    data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The MPI that is linked into a static program, detected by its library's version string.
fn static_mpi(path: &Path) -> Option<Mpi> {
    let bytes = fs::read(path).ok()?;
    let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    match (has(b"MPICH Version:"), has(b"Open MPI v")) {
        (true, false) => Some(Mpi::Mpich),
        (false, true) => Some(Mpi::OpenMpi),
        _ => None,
    }
}

/// The beginning of a text file.
fn read_start(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut text = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(SCRIPT).read_to_end(&mut text).ok()?;
    Some(text)
}
