/** ESLint: the rules of typescript-eslint that use types. Formatting is not checked here. */
import tseslint from 'typescript-eslint';

// Translations are extracted from these calls: each template is a literal, and a finished sentence is never changed.
const SENTENCE = "CallExpression[callee.name=/^(text|plural|sentences)$/]";
const TEMPLATES = [
  {
    selector: "CallExpression[callee.name=/^(text|textNodes)$/][arguments.0.type!='Literal']",
    message: 'The template must be a literal here, so that it is found for translation.'
  },
  {
    selector: "CallExpression[callee.name='plural']:matches([arguments.1.type!='Literal'], [arguments.2.type!='Literal'])",
    message: 'Both templates must be literals here, so that they are found for translation.'
  },
  {
    selector: ':not(CallExpression) > Identifier[name=/^(text|textNodes)$/].init',
    message: 'Call it under its own name: extraction goes by names.'
  },
  {
    selector: `MemberExpression[property.name=/^(toUpperCase|toLowerCase|replace|replaceAll|slice|substring|trim|trimEnd|concat|charAt)$/] > ${SENTENCE}.object`,
    message: 'A finished sentence is not changed: write a template for each variant.'
  },
  {
    selector: `BinaryExpression[operator='+'] > ${SENTENCE}`,
    message: 'A sentence is not glued: write one template.'
  }
];

export default tseslint.config(
  // records.ts is generated from the Python records.
  { ignores: ['build/', 'dist/', 'lib/', 'node_modules/', 'src/records.ts'] },
  {
    files: ['src/**/*.{ts,tsx}', 'tests/**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { project: ['tsconfig.json', 'tsconfig.tests.json'], tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: 'error',
      'no-restricted-syntax': ['error', ...TEMPLATES],
      'no-console': ['error', { allow: ['warn', 'error'] }],
      // Lumino's signals are connected with a method and its object: signal.connect(this._onChange, this).
      '@typescript-eslint/unbound-method': 'off',
      // Methods are async because an interface of JupyterLab or Colab wants a promise.
      '@typescript-eslint/require-await': 'off',
      // Fields of kernel messages are unknown; String() shows whatever they are.
      '@typescript-eslint/no-base-to-string': 'off',
      // An underscore marks what is left out on purpose.
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }]
    }
  },
  {
    files: ['tests/**/*.ts'],
    // test() of node:test returns a promise that its runner waits for.
    rules: { '@typescript-eslint/no-floating-promises': 'off' }
  }
);
