//! The loader, the first program of each Linux in the lab. Each `vmbell` carries the loader for its own architecture;
//! for another architecture the lab reads it from the `vmbell` built for that one.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use crate::error::{LabError, cannot, failed};
use object::read::ReadCache;
use object::{Object, ObjectSection};

/// The ELF section of `vmbell` that contains the loader.
const SECTION: &str = ".vmbell.loader";

/// No code refers to this: the lab reads it from the program's file.
#[used]
#[unsafe(link_section = ".vmbell.loader")]
static LOADER: [u8; loader::ELF.len()] = {
    let Some(bytes) = loader::ELF.first_chunk() else {
        unreachable!();
    };
    *bytes
};

/// Reads the loader that this `vmbell` carries.
pub(crate) fn read(vmbell: &Path) -> Result<Vec<u8>, LabError> {
    let file = File::open(vmbell).map_err(cannot("read", vmbell))?;
    let cache = ReadCache::new(file);
    let section = || {
        let file = object::File::parse(&cache).ok()?;
        let section = file.section_by_name(SECTION)?;
        Some(section.data().ok()?.to_vec())
    };
    let loader = section().filter(|loader| !loader.is_empty());
    loader.ok_or_else(|| {
        failed!(
            "{} does not carry the first program of the lab's Linux: it is not a vmbell of this version",
            vmbell.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_the_lab_in_it_carries_the_loader() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(read(&own).unwrap(), loader::ELF);
    }

    #[test]
    fn another_program_has_none() {
        let error = read(Path::new("/bin/true")).unwrap_err();
        let said = "/bin/true does not carry the first program";
        assert!(error.to_string().starts_with(said), "{error}");
    }
}
