//! Talks over a socket of virtio-vsock: a guest with its host, or a host with its guest.
//!
//! `vsock listen PORT` accepts one connection and sends back what it reads, in reverse order. `vsock connect CID PORT`
//! sends its standard input there and prints the answer; CID 2 is the host. A connection that is refused is tried again
//! for ten minutes. Only a hang takes that long.

use std::io::{Read, Write, copy, stdin, stdout};
use std::net::Shutdown;
use std::thread::sleep;
use std::time::{Duration, Instant};

use vsock::{VMADDR_CID_ANY, VsockListener, VsockStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", port] => listen(port.parse()?),
        ["connect", cid, port] => connect(cid.parse()?, port.parse()?),
        _ => Err("usage: vsock listen PORT | vsock connect CID PORT".into()),
    }
}

fn listen(port: u32) -> Result<()> {
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, port)?;
    let (mut stream, _) = listener.accept()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    bytes.reverse();
    stream.write_all(&bytes)?;
    Ok(())
}

fn connect(cid: u32, port: u32) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(600);
    let mut stream = loop {
        match VsockStream::connect_with_cid_port(cid, port) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > end => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(50)),
        }
    };
    copy(&mut stdin(), &mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    copy(&mut stream, &mut stdout())?;
    Ok(())
}
