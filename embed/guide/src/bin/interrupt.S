    mov edi, 0xd0000000
    mov dword ptr [rdi], 7  # the doorbell
    sti
    hlt                     # until the interrupt
    mov eax, ebx
    out 0x10, eax           # prints the vector
    out {DONE_PORT}, eax
