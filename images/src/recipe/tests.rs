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
    assert_eq!(documented(), schema::keys(&schemars::schema_for!(Spec)));
}

#[test]
fn a_recipe_knows_its_files_and_its_lock() {
    let (folder, recipe) = load(GOOD);
    let recipe = recipe.expect("loads");
    assert_eq!(recipe.name(), "tiny");
    assert_eq!(recipe.file("guest/init"), b"#!/bin/sh\n");
    assert_eq!(recipe.lock_path(), folder.path().join("tiny.lock"));
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
    assert!(refused("[kernel]", "[kernel]\nextra = 1").contains("unknown field"));
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
