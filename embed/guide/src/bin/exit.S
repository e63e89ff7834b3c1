    mov eax, 0x2a
    out 0x10, eax           # exits to the VMM
    out {DONE_PORT}, eax    # ends the VMM's loop
