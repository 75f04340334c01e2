//! Checks before a run that the workload's programs can run on its image: the guest's kernel and
//! loader must accept them, and their MPI libraries must be of one implementation.
//!
//! Only files named in the command are checked, since other files may be arbitrary data. Used for
//! plans.

use std::collections::BTreeMap;
use std::path::Path;

use crate::guest_root::interpreter_line;
use crate::large_files::LargeFiles;
use crate::library::{Closure, Lacking, Object, in_guest, is_of_glibc};
use crate::{Binary, GuestRoot, Mpi, ProgramError};

/// The folder of the workload's files.
const HOME: &str = "/root";

/// The parts of a workload that determine its programs.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// Its script.
    pub command: &'a str,
    /// Its environment.
    pub environment: &'a BTreeMap<String, String>,
    /// Its files by their names in `/root`.
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// Its large files, which are data on a disk.
    pub large_files: &'a LargeFiles,
    /// The name of the image's recipe.
    pub image: &'a str,
}

/// A program of the workload by its name, with a line for the user if there is one, or with the reason why it cannot run.
pub type Checked = (String, Result<Option<String>, ProgramError>);

/// Checks each program of `workload` against the tree `root` of its image.
///
/// # Errors
/// Returns an error if no program can run.
pub fn check(root: &GuestRoot, workload: Workload<'_>) -> Result<Vec<Checked>, ProgramError> {
    if !root.has_shell() {
        return Err(ProgramError::NoShell(workload.image.to_owned()));
    }
    let mut root = root.clone();
    for (name, bytes) in workload.files {
        // Data only has to exist.
        let is_binary = bytes.starts_with(b"\x7fELF");
        let bytes = if is_binary { &bytes[..] } else { b"" };
        root.add(&format!("{HOME}/{name}"), bytes);
    }
    for (name, _) in workload.large_files.iter() {
        root.add(&format!("{HOME}/{name}"), b"");
    }
    let called = workload.files.iter();
    let called = called.filter(|(name, _)| is_called(workload.command, name));
    let checked = called.filter_map(|(name, bytes)| {
        let checked = if let Some(binary) = Binary::read(&bytes[..]) {
            check_binary(&root, &workload, name, binary)
        } else {
            let words = interpreter_line(bytes)?;
            check_script(&root, &workload, name, &words).map(|()| None)
        };
        Some((name.clone(), checked))
    });
    Ok(checked.collect())
}

/// True if a word of the command is the file `name`, with or without a path.
fn is_called(command: &str, name: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || "\"'`;|&()<>=$".contains(c);
    let mut words = command.split(ends);
    words.any(|word| {
        word == name
            || word
                .strip_suffix(name)
                .is_some_and(|left| left.ends_with('/'))
    })
}

fn check_script(
    root: &GuestRoot,
    workload: &Workload<'_>,
    name: &str,
    words: &[String],
) -> Result<(), ProgramError> {
    let absent = |interpreter: &str| ProgramError::Interpreter {
        program: name.to_owned(),
        interpreter: interpreter.to_owned(),
        image: workload.image.to_owned(),
        advice: "take an image that has it, or add its package to the recipe",
    };
    let interpreter = words.first().map_or("", String::as_str);
    if root.real(interpreter).is_none() {
        return Err(absent(interpreter));
    }
    let by_name = words.get(1).filter(|_| interpreter.ends_with("/env"));
    match by_name {
        Some(program)
            if !program.starts_with('-')
                && !program.contains('=')
                && !workload.environment.contains_key("PATH")
                && root.program(program).is_none() =>
        {
            Err(absent(program))
        }
        _ => Ok(()),
    }
}

fn check_binary(
    root: &GuestRoot,
    workload: &Workload<'_>,
    name: &str,
    binary: Binary,
) -> Result<Option<String>, ProgramError> {
    if binary.is_of_32_bits() {
        return Ok(None);
    }
    can_start(root, name, &binary, workload.image)?;
    if binary.interpreter.is_none() {
        return Ok(None);
    }
    // The effect of a command that sets these itself is unknown here.
    let variables = ["LD_LIBRARY_PATH", "LD_PRELOAD"];
    if variables.iter().any(|name| workload.command.contains(name)) {
        return Ok(None);
    }
    let path = Path::new(HOME).join(name);
    let folder = path.parent().unwrap_or(Path::new(HOME));
    let library_path = library_path(workload.environment);
    let closure = in_guest(root, &library_path, Object::new(name, folder, binary));
    fits(root, name, &closure, workload.image)?;
    if !closure.missing.is_empty() {
        let advice = "add them to workload.files and their folder to LD_LIBRARY_PATH in workload.environment";
        return Err(missing(
            name,
            &closure,
            workload.image,
            "workload.files",
            advice,
        ));
    }
    Ok(Some(describe(name, &closure)))
}

/// Returns the folders of LD_LIBRARY_PATH in the guest.
fn library_path(environment: &BTreeMap<String, String>) -> Vec<String> {
    let value = environment
        .get("LD_LIBRARY_PATH")
        .map_or("", String::as_str);
    value.split(':').map(str::to_owned).collect()
}

/// Checks that the guest's kernel can start a program.
pub fn can_start(
    root: &GuestRoot,
    name: &str,
    binary: &Binary,
    image: &str,
) -> Result<(), ProgramError> {
    if !binary.is_for_nodes() {
        return Err(ProgramError::Machine {
            program: name.to_owned(),
            machine: binary.machine_name(),
        });
    }
    let Some(interpreter) = &binary.interpreter else {
        return Ok(());
    };
    if root.real(interpreter).is_some() {
        return Ok(());
    }
    let advice = match interpreter.contains("musl") {
        true => "it is linked to musl; link it to glibc, or statically (-static)",
        false => "link it to Debian's glibc, or statically (-static)",
    };
    Err(ProgramError::Interpreter {
        program: name.to_owned(),
        interpreter: interpreter.clone(),
        image: image.to_owned(),
        advice,
    })
}

/// Checks a program's MPI and its versions of libraries against the image.
pub fn fits(
    root: &GuestRoot,
    name: &str,
    closure: &Closure,
    image: &str,
) -> Result<(), ProgramError> {
    let library = |mpi: Mpi| closure.mpi.get(&mpi).cloned();
    if let (Some(mpich), Some(open_mpi)) = (library(Mpi::Mpich), library(Mpi::OpenMpi)) {
        return Err(ProgramError::Mixed {
            program: name.to_owned(),
            mpich,
            open_mpi,
        });
    }
    for (&mpi, library) in &closure.mpi {
        let absent = closure.missing.keys();
        let absent = absent
            .into_iter()
            .find(|name| Mpi::of_library(name) == Some(mpi));
        // A library from the workload is not compared with the image.
        let is_image = !closure.open.contains_key(library);
        if let Some(library) = absent.or(Some(library).filter(|_| is_image && !root.has(mpi))) {
            return Err(no_mpi(root, name, mpi, library, image));
        }
    }
    match closure.lacking.first() {
        Some(lacking) => Err(too_old(name, lacking, image)),
        None => Ok(()),
    }
}

fn no_mpi(root: &GuestRoot, name: &str, mpi: Mpi, library: &str, image: &str) -> ProgramError {
    let (has, advice) = if library == "libmpi.so.12" && root.has(Mpi::Mpich) {
        let advice = "compile it with Debian's mpicc.mpich, whose library is libmpich.so.12";
        ("MPICH of Debian".to_owned(), advice.to_owned())
    } else if root.has(mpi) {
        let has = format!("{mpi} without that library");
        (has, "take an image that has it, too".to_owned())
    } else if root.has(mpi.other()) {
        let compiler = format!("mpicc.{}", mpi.other().short_name());
        let advice = format!("compile it with {compiler}, or take an image with {mpi}");
        (mpi.other().to_string(), advice)
    } else {
        ("no MPI".to_owned(), format!("take an image with {mpi}"))
    };
    ProgramError::Mpi {
        program: name.to_owned(),
        mpi,
        library: library.to_owned(),
        image: image.to_owned(),
        has_instead: format!("{has}: {advice}"),
    }
}

fn too_old(name: &str, lacking: &Lacking, image: &str) -> ProgramError {
    let program = match lacking.by == name {
        true => name.to_owned(),
        false => format!("{}, which {name} needs,", lacking.by),
    };
    let newest = lacking.newest.as_ref().map_or_else(String::new, |newest| {
        let numbers: Vec<String> = newest.iter().map(ToString::to_string).collect();
        format!(" (glibc {})", numbers.join("."))
    });
    ProgramError::Version {
        program,
        version: format!("{} of {}", lacking.version, lacking.library),
        image: image.to_owned(),
        newest,
    }
}

/// Returns the error for the missing libraries.
pub fn missing(
    name: &str,
    closure: &Closure,
    image: &str,
    places: &'static str,
    advice: &'static str,
) -> ProgramError {
    let names = closure.missing.iter().map(|(library, by)| {
        if is_of_glibc(library) {
            format!("{library} (a part of glibc, which nodes have from the image alone: add it to userland.files of its recipe)")
        } else if library.contains('/') {
            format!("{library} (by its path, which nodes do not have: link it with -l)")
        } else if by == name {
            library.clone()
        } else {
            format!("{library} (of {by})")
        }
    });
    ProgramError::Missing {
        program: name.to_owned(),
        image: image.to_owned(),
        places,
        libraries: names.collect::<Vec<_>>().join(", "),
        advice,
    }
}

/// Describes a program and its libraries in one line.
pub fn describe(name: &str, closure: &Closure) -> String {
    let mpi = closure.mpi.keys().next();
    let mpi = mpi.map_or_else(String::new, |mpi| format!(", linked to {mpi}"));
    let settled = closure.settled.len();
    let brought: Vec<&str> = closure.open.keys().map(String::as_str).collect();
    let brought = match brought.is_empty() {
        true => "brings none".to_owned(),
        false => format!("brings {}", brought.join(", ")),
    };
    format!("{name}{mpi}; {settled} libraries of the image, {brought}")
}
