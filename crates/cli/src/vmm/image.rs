//! `vmbell bench vmms image`: writes the image to a file.

use std::borrow::Cow;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::args::{Format, VmmCommand};
use crate::exit::Exit;

pub(super) fn run(command: &VmmCommand) -> Result<Exit> {
    let VmmCommand::Image { output, format } = command;
    if vmbell_probe_image::ELF.is_empty() {
        bail!("this vmbell has no image: it is built on x86-64 Linux only");
    }
    let image: Cow<'_, [u8]> = match format {
        Format::Elf => vmbell_probe_image::ELF.into(),
        Format::Bzimage => vmbell_probe_image::bzimage().into(),
    };
    if output == Path::new("-") {
        return match io::stdout().lock().write_all(&image) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write to stdout")
            }
            _ => Ok(Exit::Good),
        };
    }
    fs::write(output, &image)
        .with_context(|| format!("cannot write the image to '{}'", output.display()))?;
    Ok(Exit::Good)
}
