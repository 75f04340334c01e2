//! Recipes: coverage of their keys, extension, and errors.
use std::fs;

use super::*;
use crate::schema;

const GOOD: &str = r#"
    name = "tiny"
    suite = "bookworm"
    architecture = "amd64"
    [kernel]
    package = "linux-image-cloud-amd64"
    modules = ["virtio_mmio"]
    [userland]
    packages = ["busybox-static"]
    files = ["/bin/busybox", "/usr/lib/*.so.0"]
    [initramfs]
    files = ["/bin/busybox"]
    [[include]]
    source = "guest/init"
    path = "/sbin/init"
    into = "root"
    [[program]]
    source = "one.c"
    path = "/usr/local/bin/one"
    compiler = "gcc"
"#;

fn load(text: &str) -> (tempfile::TempDir, Result<Recipe, RecipeError>) {
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::create_dir(folder.path().join("guest")).expect("folder");
    fs::write(folder.path().join("guest/init"), "#!/bin/sh\n").expect("writes");
    fs::write(folder.path().join("one.c"), "int main(void) {}\n").expect("writes");
    let path = folder.path().join("tiny.toml");
    fs::write(&path, text).expect("writes");
    let recipe = Recipe::load(&path);
    (folder, recipe)
}

fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    load(&GOOD.replacen(from, to, 1))
        .1
        .expect_err("is refused")
        .to_string()
}

/// The keys that have a row in the documentation.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/images.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let keys = rows.filter_map(|row| row.split_once("` |"));
    keys.map(|(key, _)| key.to_owned()).collect()
}

#[test]
fn every_key_has_a_row_in_the_documentation_and_every_row_a_key() {
    assert_eq!(
        documented(),
        schema::keys(&schemars::schema_for!(super::spec::Spec))
    );
}

#[test]
fn a_recipe_knows_its_files_and_its_lock() {
    let (folder, recipe) = load(GOOD);
    let recipe = recipe.expect("loads");
    assert_eq!(recipe.name(), "tiny");
    assert_eq!(recipe.file(0, "guest/init"), b"#!/bin/sh\n");
    assert_eq!(recipe.lock_path(), Some(folder.path().join("tiny.lock")));
}

#[test]
fn the_key_covers_every_byte_that_is_named() {
    let (folder, recipe) = load(GOOD);
    let key = recipe.expect("loads").key();
    assert_eq!(key.len(), 64);
    let again = || {
        Recipe::load(&folder.path().join("tiny.toml"))
            .expect("loads")
            .key()
    };
    assert_eq!(again(), key);
    fs::write(folder.path().join("one.c"), "int main(void) { }\n").expect("writes");
    let other_source = again();
    assert_ne!(other_source, key);
    fs::write(folder.path().join("tiny.toml"), format!("{GOOD}\n")).expect("writes");
    assert_ne!(again(), other_source);
}

#[test]
fn what_is_wrong_is_named() {
    assert!(refused("suite =", "suit =").contains("suit"));
    assert!(refused("[kernel]", "[kernel]\nextra = 1").contains("unknown key"));
    assert!(refused("\"amd64\"", "\"riscv64\"").contains("use amd64"));
    assert!(refused("\"busybox-static\"", "\"-o evil\"").contains("userland.packages"));
    assert!(refused("\"gcc\"", "\"gcc; reboot\"").contains("program.compiler"));
    assert!(refused("/sbin/init", "/sbin/../init").contains("include.path"));
    assert!(refused("\"one.c\"", "\"../one.c\"").contains("inside the recipe's folder"));
    assert!(refused("\"one.c\"", "\"two.c\"").contains("two.c"));
    assert!(refused("into = \"root\"", "into = \"elsewhere\"").contains("elsewhere"));
}

#[test]
fn the_recipe_that_comes_with_the_project_loads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bookworm-mpich.toml");
    assert_eq!(Recipe::load(&path).expect("loads").name(), "bookworm-mpich");
}

/// A recipe that extends the good one, from another folder.
fn extended(own: &str) -> (tempfile::TempDir, Result<Recipe, RecipeError>) {
    let (folder, base) = load(GOOD);
    base.expect("loads");
    let above = folder.path().join("own");
    fs::create_dir_all(above.join("guest")).expect("folder");
    fs::create_dir_all(above.join("tree/src")).expect("folder");
    fs::write(above.join("guest/init"), "#!/bin/own\n").expect("writes");
    fs::write(above.join("tree/src/main.c"), "int main(void) {}\n").expect("writes");
    let path = above.join("own.toml");
    fs::write(&path, own).expect("writes");
    let recipe = Recipe::load(&path);
    (folder, recipe)
}

const OWN: &str = r#"
    name = "own"
    extends = "../tiny.toml"
    [userland]
    packages = ["bash", "busybox-static"]
    files = ["/usr/share/**/*.txt"]
    [environment]
    WHO = "me"
    [[include]]
    source = "guest/init"
    path = "/etc/other"
    into = "root"
    [[program]]
    source = "tree/src/main.c"
    path = "/usr/local/bin/one"
    compiler = "gcc"
    [[include]]
    source = "tree/**/*.c"
    path = "/opt/src"
    into = "root"
    [[source]]
    path = "tree"
    script = "make install DESTDIR=$OUT"
"#;

#[test]
fn a_recipe_adds_to_the_one_that_it_extends() {
    let (_folder, recipe) = extended(OWN);
    let recipe = recipe.expect("loads");
    let spec = recipe.spec();
    assert_eq!((recipe.name(), spec.suite.as_str()), ("own", "bookworm"));
    assert_eq!(spec.userland.packages, ["busybox-static", "bash"]);
    assert_eq!(spec.userland.files.len(), 3);
    assert_eq!(spec.environment["WHO"], "me");
    // Files of the same name are read from their recipe's folder.
    let contents = |at: usize| {
        let include = &spec.include[at];
        recipe.file(include.layer, &include.source)
    };
    assert_eq!(contents(0), b"#!/bin/sh\n");
    assert_eq!(contents(1), b"#!/bin/own\n");
    // The same path: the upper layer's entry.
    let [program] = &spec.program[..] else {
        panic!("{:?}", spec.program)
    };
    assert_eq!(program.source, "tree/src/main.c");
    let tree = recipe.tree(1, "tree/**/*.c").expect("a pattern's files");
    assert_eq!(tree.entries()[0].path, "src/main.c");
    assert!(recipe.tree(1, "tree").is_some() && recipe.has_trees());
}

#[test]
fn the_key_covers_what_a_recipe_extends_and_its_folders() {
    let (folder, recipe) = extended(OWN);
    let key = recipe.expect("loads").key();
    let path = folder.path().join("own/own.toml");
    let again = || Recipe::load(&path).expect("loads").key();
    assert_eq!(again(), key);
    fs::write(folder.path().join("own/tree/src/more.h"), "").expect("writes");
    let with_more = again();
    assert_ne!(with_more, key);
    fs::write(folder.path().join("one.c"), "int main(void) { }\n").expect("writes");
    assert_ne!(again(), with_more);
}

#[test]
fn what_is_wrong_with_extending_is_named() {
    let refused = |from: &str, to: &str| {
        assert!(OWN.contains(from));
        let (_folder, recipe) = extended(&OWN.replacen(from, to, 1));
        recipe.expect_err("is refused").to_string()
    };
    let error = refused("../tiny.toml", "tiny");
    assert!(
        error.contains("tiny") && !error.contains("bookworm-mpich.toml"),
        "{error}"
    );
    let error = refused("../tiny.toml", "own.toml");
    assert!(error.contains("own.toml extends more than 8"), "{error}");
    let error = refused("extends = \"../tiny.toml\"", "");
    assert!(error.contains("suite is missing"), "{error}");
    let error = refused("\"tree\"", "\"wood\"");
    assert!(error.contains("wood"), "{error}");
    let error = refused("tree/**/*.c", "tree/**/*.f");
    assert!(error.contains("fits no file"), "{error}");
    let error = refused("path = \"tree\"", "path = \"tree\"\npackage = \"hpcc\"");
    assert!(error.contains("one or the other"), "{error}");
    let error = refused("/usr/share/**/*.txt", "/usr/share/a**.txt");
    assert!(error.contains("whole part"), "{error}");
    let error = Recipe::load(Path::new("no-such-recipe")).expect_err("is refused");
    assert!(error.to_string().contains("bookworm-mpich"), "{error}");
}

#[test]
fn a_built_in_recipe_s_name_is_no_path() {
    let folder = Path::new("/somewhere");
    let built_in = Path::new("bookworm-mpich");
    assert_eq!(place(folder, built_in), built_in);
    assert_eq!(place(folder, Path::new("mine")), folder.join("mine"));
    let file = Path::new("bookworm-mpich.toml");
    assert_eq!(place(folder, file), folder.join(file));
}
