    mov edi, 0xd0000000
    mov dword ptr [rdi], 7  # the doorbell
    mov dword ptr [rdi], 7
    mov dword ptr [rdi], 8  # not the doorbell's value: exits to the VMM
    out {DONE_PORT}, eax
