//! `cargo xtask page`: the page of `vmbell report`, in a real browser.
//!
//! Pages of a run that was just measured, and of reports made from it with hostile names, VMMs and other kinds of timing, are
//! loaded in Chromium: in a wide window and on a phone, light, dark and on paper. Each has to draw every row, ask for
//! nothing, report no error, and give axe-core nothing to say. A page that is wrong in every way has to fail. Screenshots are
//! left below `target/page/`.

mod axe;
mod broken;
mod browser;
mod checks;
mod devtools;
mod reports;
mod view;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use self::browser::Chromium;
use self::reports::Page;
use self::view::View;
use crate::{artifacts, release};

/// Runs the whole test.
pub(crate) fn run() -> Result<()> {
    let folder = artifacts::root().join("target/page");
    fs::create_dir_all(&folder).context("cannot make a folder for pages")?;
    let axe = axe::source()?;
    let vmbell = release::program()?;
    let pages = reports::pages(&vmbell, &folder)?;
    let mut chromium = Chromium::start()?;
    broken::is_found(&mut chromium, &axe, &folder)?;
    for page in &pages {
        let started = Instant::now();
        let sheets = test(&mut chromium, &axe, page, &folder)
            .with_context(|| page.path.display().to_string())?;
        println!(
            "page: {} is right in {} views, and on {sheets} sheets of paper ({:.1} s)",
            page.name,
            View::ALL.len(),
            started.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// Tests one page, and returns on how many sheets of paper it is.
fn test(chromium: &mut Chromium, axe: &str, page: &Page, folder: &Path) -> Result<usize> {
    let mut open = chromium.open(&page.path)?;
    checks::keyboard(&mut open)?;
    open.ask(&format!("{axe};\n'ready'"))?;
    for view in View::ALL {
        open.show(view)?;
        let found = checks::check(&mut open, view, page)?;
        let picture = folder.join(format!("{}-{}.png", page.name, view.name));
        fs::write(&picture, open.picture(view)?)?;
        ensure!(
            found.is_empty(),
            "in the view {}:\n  {}\nsee {}",
            view.name,
            found.join("\n  "),
            picture.display()
        );
    }
    let paper = open.paper()?;
    fs::write(folder.join(format!("{}.pdf", page.name)), &paper)?;
    let sheets = checks::sheets(&paper);
    ensure!(sheets > 0, "nothing is on paper");
    let unexpected = open.unexpected();
    ensure!(unexpected.is_empty(), "{}", unexpected.join("\n  "));
    open.close()?;
    Ok(sheets)
}
