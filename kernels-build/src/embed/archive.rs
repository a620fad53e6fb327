//! A static library of one object, in the `ar` format with its symbol index.

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_LEN: usize = 60;

/// An archive with one member, whose name has at most 15 characters, that defines one symbol.
pub(super) fn archive(name: &str, object: &[u8], symbol: &str) -> Vec<u8> {
    let mut index = Vec::new();
    let index_len = (4 + 4 + symbol.len() + 1).next_multiple_of(2);
    let member = MAGIC.len() + HEADER_LEN + index_len;
    index.extend(1_u32.to_be_bytes());
    index.extend(u32::try_from(member).expect("a symbol's name is short").to_be_bytes());
    index.extend(symbol.as_bytes());
    index.resize(index_len, 0);
    let mut out = MAGIC.to_vec();
    put(&mut out, "/", &index);
    put(&mut out, &format!("{name}/"), object);
    out
}

fn put(out: &mut Vec<u8>, name: &str, data: &[u8]) {
    let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len());
    assert_eq!(header.len(), HEADER_LEN, "the fields of an archive's header have fixed widths");
    out.extend(header.as_bytes());
    out.extend(data);
    if out.len() % 2 == 1 {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use object::read::archive::ArchiveFile;

    #[test]
    fn other_readers_understand_it() {
        for (object, symbol) in [(&b"odd"[..], "even_"), (b"even", "odd"), (b"", "s")] {
            let bytes = super::archive("kernels.o", object, symbol);
            let archive = ArchiveFile::parse(&*bytes).expect("an archive");
            let members: Vec<_> = archive.members().map(|member| member.expect("a member")).collect();
            assert_eq!(members.len(), 1);
            assert_eq!(members[0].name(), b"kernels.o");
            assert_eq!(members[0].data(&*bytes).expect("data"), object);
            let symbols: Vec<_> = archive.symbols().expect("an index").expect("an index").collect();
            assert_eq!(symbols.len(), 1);
            let found = symbols.into_iter().next().expect("one").expect("a symbol");
            assert_eq!(found.name(), symbol.as_bytes());
            assert_eq!(archive.member(found.offset()).expect("its member").name(), b"kernels.o");
        }
    }
}
