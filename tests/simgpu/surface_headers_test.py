"""surface_headers.py finds what it is there to find."""

import unittest

import surface_headers

TYPES = {
    "cuInit": {2000: {""}},
    "cuMemcpyHtoD": {2000: {""}, 3020: {""}, 7000: {"ptds"}},
    "cuLaunchKernelEx": {11060: {"", "ptsz"}},
}
SYMBOLS = {"cuInit", "cuMemcpyHtoD", "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds", "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"}
INIT = ("cuInit", "cuInit", 2000, "NONE")
OLD = ("cuMemcpyHtoD", "cuMemcpyHtoD", 2000, "NONE")
NEW = ("cuMemcpyHtoD", "cuMemcpyHtoD_v2", 3020, "PTDS")
EX = ("cuLaunchKernelEx", "cuLaunchKernelEx", 11060, "PTSZ")


class SurfaceHeaders(unittest.TestCase):
    def setUp(self):
        self.wanted, problems = surface_headers.wanted_rows(SYMBOLS, TYPES)
        self.assertEqual(problems, [])

    def test_versions_and_twins_come_from_the_headers(self):
        self.assertEqual(self.wanted, {INIT, OLD, NEW, EX})

    def test_accepts_each_function_once(self):
        private = ("simgpuNote", "simgpuNote", 0, "NONE")
        self.assertEqual(surface_headers.compare(self.wanted, [INIT, NEW, private], [OLD, EX]), [])

    def test_names_a_function_of_a_newer_toolkit(self):
        found = surface_headers.compare(self.wanted, [INIT, NEW], [OLD])
        self.assertEqual(len(found), 1)
        self.assertIn("cuLaunchKernelEx", found[0])

    def test_refuses_a_function_in_both_tables(self):
        self.assertEqual(len(surface_headers.compare(self.wanted, [INIT, NEW, EX], [OLD, EX])), 1)

    def test_refuses_a_wrong_version_and_a_forgotten_twin(self):
        for wrong in (("cuInit", "cuInit", 3000, "NONE"), (*NEW[:3], "NONE")):
            rows = [row for row in (INIT, NEW) if row[1] != wrong[1]] + [wrong]
            self.assertEqual(len(surface_headers.compare(self.wanted, rows, [OLD, EX])), 2)

    def test_refuses_headers_whose_types_do_not_fit(self):
        _, problems = surface_headers.wanted_rows({"cuInit", "cuInit_v2"}, TYPES)
        self.assertEqual(len(problems), 1)

    def test_twins_are_exports(self):
        self.assertEqual(surface_headers.wanted_exports([NEW]), {"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"})


if __name__ == "__main__":
    unittest.main()
