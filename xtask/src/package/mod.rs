//! `cargo xtask package`: makes a Debian package of the command, and tests it in a clean root.
//!
//! cargo-deb makes it from what `[package.metadata.deb]` in crates/cli/Cargo.toml names: the release build without
//! paths of this machine, completions, manual pages, the units of `deploy/`, and cargo-cyclonedx's list of what is
//! linked in. With `--twice` everything is built a second time in another folder and compared byte by byte.

mod chroot;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::release::{self, BuiltProgram};
use crate::{artifacts, cache};

/// The file that cargo-cyclonedx writes next to the manifest of each package.
const SBOM: &str = "vmbell.cdx";

/// Makes the package and installs it in a clean root.
pub(super) fn run() -> Result<()> {
    let package = make(artifacts::root())?;
    chroot::test(&package)?;
    println!("{}", package.display());
    Ok(())
}

/// Builds only the program, and prints its path.
pub(super) fn run_program() -> Result<()> {
    println!("{}", release::program()?.display());
    Ok(())
}

/// Makes the package from this folder and from a clone in another folder. The two have to be identical.
pub(super) fn run_twice() -> Result<()> {
    let first = make(artifacts::root())?;
    let other = tempfile::Builder::new().prefix("vmbell-other-").tempdir()?;
    let clone = other.path().join("a folder of another name");
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--no-local"]);
    output(git.arg(artifacts::root()).arg(&clone))?;
    let second = make(&clone)?;
    ensure!(
        fs::read(&first)? == fs::read(&second)?,
        "{} is another one when it is built elsewhere",
        first.display()
    );
    println!("the same bytes from both folders: {}", first.display());
    Ok(())
}

/// Makes the package from the sources in `root`, in `target/package` of `root`.
fn make(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/package");
    let built = release::build(root)?;
    let files = folder.join("files");
    if files.exists() {
        fs::remove_dir_all(&files).context("cannot remove the files of an earlier package")?;
    }
    fs::create_dir_all(files.join("man"))?;
    for shell in ["bash", "zsh", "fish"] {
        let script = output(Command::new(&built.program).args(["completions", shell]))?;
        fs::write(files.join(shell), script)?;
    }
    let mut pages = Command::new(&built.program);
    output(pages.args(["man", "--all"]).arg(files.join("man")))?;
    fs::write(files.join("changelog"), changelog(&built)?)?;
    fs::write(folder.join("vmbell.cdx.json"), sbom(root, &built)?)?;
    let mut deb = Command::new(tool("cargo-deb", "3.8.0")?);
    deb.args(["--no-build", "--strip", "--quiet", "--deb-revision="])
        .args(["--maintainer", &built.maintainer, "--manifest-path"])
        .arg(root.join("crates/cli/Cargo.toml"))
        .arg("--output")
        .arg(&folder)
        .env("CARGO_TARGET_DIR", &built.target)
        .env("SOURCE_DATE_EPOCH", &built.epoch);
    let path = output(&mut deb).context("dpkg-shlibdeps, which it calls, is in dpkg-dev")?;
    let package = PathBuf::from(path.trim());
    add_checksums(&package, &folder.join("tree"), &built)?;
    Ok(package)
}

/// Adds the checksums of all files. cargo-deb leaves that to dpkg, which would calculate them from the installed files.
fn add_checksums(package: &Path, tree: &Path, built: &BuiltProgram) -> Result<()> {
    const SUMS: &str = "find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums";
    if tree.exists() {
        fs::remove_dir_all(tree).context("cannot remove the tree of an earlier package")?;
    }
    let dpkg_deb = |option: &str| {
        let mut command = Command::new("dpkg-deb");
        command.args(["--root-owner-group", "-Zxz", option]);
        command.env("SOURCE_DATE_EPOCH", &built.epoch);
        command
    };
    output(dpkg_deb("--raw-extract").arg(package).arg(tree))?;
    output(Command::new("sh").args(["-c", SUMS]).current_dir(tree))?;
    output(dpkg_deb("--build").arg(tree).arg(package)).map(drop)
}

/// Returns the changelog for dpkg's tools. The package also has the changelog for people.
fn changelog(built: &BuiltProgram) -> Result<String> {
    let time = format!("@{}", built.epoch);
    let mut date = Command::new("date");
    date.env("LC_ALL", "C")
        .args(["--utc", "--rfc-email", "--date", &time]);
    Ok(format!(
        "vmbell ({}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- {}  {}",
        built.version,
        built.maintainer,
        output(&mut date)?
    ))
}

/// Returns the list of what is linked into the program, in CycloneDX 1.5 (ECMA-424), without the path of `root`.
fn sbom(root: &Path, built: &BuiltProgram) -> Result<String> {
    let mut cyclonedx = Command::new(tool("cargo-cyclonedx", "0.5.9")?);
    cyclonedx
        .args([
            "cyclonedx",
            "--quiet",
            "--format=json",
            "--spec-version=1.5",
            "--no-build-deps",
        ])
        .args(["--override-filename", SBOM, "--manifest-path"])
        .arg(root.join("crates/cli/Cargo.toml"))
        .env("SOURCE_DATE_EPOCH", &built.epoch);
    output(&mut cyclonedx)?;
    let file = |folder: &Path| folder.join(SBOM).with_extension("cdx.json");
    let text = fs::read_to_string(file(&root.join("crates/cli")));
    // cargo-cyclonedx makes a file for each package of the workspace.
    for entry in fs::read_dir(root.join("crates"))?.chain(fs::read_dir(root)?) {
        let _ = fs::remove_file(file(&entry?.path()));
    }
    let text = text.context("cargo-cyclonedx leaves no list for the command")?;
    Ok(text.replace(&format!("file://{}/", root.display()), "file:///vmbell/"))
}

/// Returns the path of a program that cargo installs once per user.
fn tool(name: &str, version: &str) -> Result<PathBuf> {
    let folder = cache::entry(&format!("{name}-{version}"), |folder| {
        eprintln!("package: cargo installs {name} {version}");
        let build = tempfile::tempdir()?;
        let mut install = Command::new(artifacts::cargo_program());
        install
            .args([
                "install",
                name,
                "--version",
                version,
                "--locked",
                "--no-track",
                "--quiet",
            ])
            .arg("--root")
            .arg(folder)
            .arg("--target-dir")
            .arg(build.path())
            // The program runs only for seconds, but its optimization would take minutes.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        output(&mut install).map(drop)
    })?;
    Ok(folder.join("bin").join(name))
}

/// Runs a program and returns what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(
        output.status.success(),
        "{name} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed what is no UTF-8"))
}
