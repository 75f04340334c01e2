//! Merges a recipe with its base: lists are concatenated, tables are merged, single values are replaced,
//! and an entry replaces the base's entry with the same path. Later layers take precedence. Called by
//! `load`, layer by layer from the base.

use super::spec::{Initramfs, RecipeKernel, Spec, Userland};

/// Merges `own` into `base`, which it extends.
pub(super) fn over(base: Spec, own: Spec) -> Spec {
    let paths = |spec: &Spec| -> Vec<String> {
        let includes = spec.include.iter().map(|include| include.path.clone());
        let programs = spec.program.iter().map(|program| program.path.clone());
        includes.chain(programs).collect()
    };
    let replaced = paths(&own);
    let mut include = base.include;
    include.retain(|include| !replaced.contains(&include.path));
    let mut program = base.program;
    program.retain(|program| !replaced.contains(&program.path));
    Spec {
        name: own.name,
        extends: None,
        suite: value(base.suite, own.suite),
        architecture: value(base.architecture, own.architecture),
        kernel: RecipeKernel {
            package: value(base.kernel.package, own.kernel.package),
            modules: list(base.kernel.modules, own.kernel.modules),
        },
        userland: userland(base.userland, own.userland),
        root: own.root.or(base.root),
        initramfs: Initramfs {
            files: list(base.initramfs.files, own.initramfs.files),
            directories: list(base.initramfs.directories, own.initramfs.directories),
        },
        environment: base
            .environment
            .into_iter()
            .chain(own.environment)
            .collect(),
        include: include.into_iter().chain(own.include).collect(),
        builder: super::spec::RecipeBuilder {
            packages: list(base.builder.packages, own.builder.packages),
        },
        program: program.into_iter().chain(own.program).collect(),
        source: base.source.into_iter().chain(own.source).collect(),
    }
}

fn userland(base: Userland, own: Userland) -> Userland {
    Userland {
        packages: list(base.packages, own.packages),
        whole: list(base.whole, own.whole),
        files: list(base.files, own.files),
        optional: list(base.optional, own.optional),
        lib_paths: list(base.lib_paths, own.lib_paths),
        optional_libraries: list(base.optional_libraries, own.optional_libraries),
        busybox: own.busybox.or(base.busybox),
        directories: list(base.directories, own.directories),
        links: base.links.into_iter().chain(own.links).collect(),
    }
}

fn value(base: String, own: String) -> String {
    if own.is_empty() { base } else { own }
}

fn list(mut base: Vec<String>, own: Vec<String>) -> Vec<String> {
    for value in own {
        if !base.contains(&value) {
            base.push(value);
        }
    }
    base
}
