# Writes to port 0x77, reads it, says done, and pushes.
    out 0x77, al
    in al, 0x77
    mov edx, {DONE_PORT}
    out dx, eax
    push rax
    hlt
