# cmake -DIMAGE=<file> -DSYMBOL=<name> -DOUT=<file>: writes a C++ source whose object holds the file's bytes.
file(SHA256 ${IMAGE} sum)
file(WRITE ${OUT} "// ${sum}
__asm__(
    \".section .rodata\\n\"
    \".balign 16\\n\"
    \".globl ${SYMBOL}\\n\"
    \".hidden ${SYMBOL}\\n\"
    \".type ${SYMBOL}, @object\\n\"
    \"${SYMBOL}:\\n\"
    \".incbin \\\"${IMAGE}\\\"\\n\"
    \".size ${SYMBOL}, . - ${SYMBOL}\\n\"
    \".previous\\n\");
")
