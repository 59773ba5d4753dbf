/* A program that embeds CPython and is its own sys.executable, as frozen applications are: it runs $EMBEDDED_CODE
 * with sys.prefix $EMBEDDED_HOME, whatever its arguments.  Each start adds a byte to the file $EMBEDDED_STARTS; the
 * fifth one ends at once. */
#include <Python.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int count_starts(void)
{
    struct stat st;
    int fd = open(getenv("EMBEDDED_STARTS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    int known = fd >= 0 && write(fd, "x", 1) == 1 && !fstat(fd, &st);
    close(fd);
    return known ? (int)st.st_size : 1000;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (count_starts() >= 5)
        return 98;
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    wchar_t *self = Py_DecodeLocale(argv[0], NULL);
    wchar_t *home = Py_DecodeLocale(getenv("EMBEDDED_HOME"), NULL);
    PyConfig_SetString(&config, &config.program_name, self);
    PyConfig_SetString(&config, &config.executable, self);
    PyConfig_SetString(&config, &config.home, home);
    if (PyStatus_Exception(Py_InitializeFromConfig(&config)))
        return 97;
    int failed = PyRun_SimpleString(getenv("EMBEDDED_CODE"));
    return Py_FinalizeEx() || failed;
}
