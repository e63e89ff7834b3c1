//! A mirror of packages on this host for apt's own programs. It records what was fetched, and is slow enough to be
//! interrupted.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use vmbell::sync::Mutex;
use vmbell_lab::cache::hash_file;
use vmbell_statistics::Random;

use super::support::Sandbox;

/// The dependencies of QEMU's package, with the size of each in bytes.
const LIBRARIES: [(&str, usize); 4] = [
    ("liba", 300_000),
    ("libb", 300_000),
    ("libc-data", 100_000),
    ("libd", 50_000),
];
const QEMU: &str = "qemu-system-x86";
/// The number of bytes sent before each pause.
const PIECE: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(5);

pub struct Mirror {
    fetched: Arc<Mutex<Vec<String>>>,
}

impl Mirror {
    /// Makes packages with a QEMU that consists of two scripts, and puts apt's programs, which install from here, on
    /// PATH.
    pub fn new(sandbox: &Sandbox) -> Self {
        let folder = sandbox.path("mirror");
        fs::create_dir(&folder).unwrap();
        let mut random = Random::new(1);
        for (name, bytes) in LIBRARIES {
            let tree = sandbox.path(name);
            let content: Vec<u8> = (0..bytes).map(|_| random.next().to_le_bytes()[0]).collect();
            write(&tree.join("usr/share").join(name), &content, 0o644);
            build(&tree, name, "", &folder);
        }
        let tree = sandbox.path(QEMU);
        let script = |path: &str, body: &str| {
            write(
                &tree.join(path),
                format!("#!/bin/sh\n{body}\n").as_bytes(),
                0o755,
            );
        };
        let loader = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
        script(loader, "shift 3; exec \"$@\"");
        script(
            "usr/bin/qemu-system-x86_64",
            "echo QEMU emulator version 9.0.0",
        );
        let libraries = LIBRARIES.map(|(name, _)| name).join(", ");
        build(&tree, QEMU, &format!("Depends: {libraries}\n"), &folder);

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let list = sandbox.path("sources.list");
        fs::write(&list, format!("deb [trusted=yes] http://{address} ./\n")).unwrap();
        let sources = format!(
            "-o Dir::Etc::SourceList={} -o Dir::Etc::SourceParts=/dev/null",
            list.display()
        );
        sandbox.script("apt-get", &format!("exec apt-get {sources} \"$@\""));
        sandbox.script("dpkg-deb", "exec dpkg-deb \"$@\"");

        let fetched = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&fetched);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (folder, log) = (folder.clone(), Arc::clone(&log));
                // If the client is killed, its connection fails.
                thread::spawn(move || answer(stream, &folder, &log));
            }
        });
        Self { fetched }
    }

    /// The files that were requested since the last call.
    pub fn fetched(&self) -> Vec<String> {
        std::mem::take(&mut self.fetched.lock())
    }
}

fn write(path: &Path, content: &[u8], mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Builds a package from a tree, and adds it to the mirror's index.
fn build(tree: &Path, name: &str, depends: &str, mirror: &Path) {
    let control = format!(
        "Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: none\n{depends}Description: none\n"
    );
    write(&tree.join("DEBIAN/control"), control.as_bytes(), 0o644);
    let file = format!("{name}_1_amd64.deb");
    let package = mirror.join(&file);
    let built = Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Znone", "--build"])
        .args([tree, &package])
        .stdout(Stdio::null())
        .status();
    assert!(built.unwrap().success());
    let (size, digest) = (
        fs::metadata(&package).unwrap().len(),
        hash_file(&package).unwrap(),
    );
    let index = mirror.join("Packages");
    let before = fs::read_to_string(&index).unwrap_or_default();
    let entry = format!("{control}Filename: ./{file}\nSize: {size}\nSHA256: {digest}\n\n");
    fs::write(index, before + &entry).unwrap();
}

/// Answers one HTTP request, unless the client goes away.
fn answer(stream: TcpStream, folder: &Path, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let request = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let name = request.split(' ').nth(1)?.rsplit('/').next()?.to_owned();
    let content = fs::read(folder.join(&name));
    log.lock().push(name);
    let (status, content) = match content {
        Ok(content) => ("200 OK", content),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = content.len();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    for piece in content.chunks(PIECE) {
        stream.write_all(piece).ok()?;
        thread::sleep(PAUSE);
    }
    Some(())
}
