//! Writes the image to a file: `cargo run -p vmbell-probe-image --example image -- [--bzimage] FILE`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let bzimage = arguments.first().is_some_and(|word| word == "--bzimage");
    if bzimage {
        arguments.remove(0);
    }
    let [file] = arguments.as_slice() else {
        eprintln!("usage: image [--bzimage] FILE");
        return ExitCode::from(2);
    };
    let image = if bzimage {
        vmbell_probe_image::bzimage()
    } else {
        vmbell_probe_image::ELF.to_vec()
    };
    match std::fs::write(file, image) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}
